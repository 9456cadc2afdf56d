"""The archive with what align-echo cannot know of it: how long an episode is, what refuses, who knows the way."""

from archive import REFUSED, Archive

import align_echo


def next_step(env):
    """What somebody would do who knows the archive."""
    if env.held == env.wanted:
        return f"hand in {env.wanted}" if env.at == "desk 1" else "walk to desk 1"
    if env.at != env.home:
        return f"walk to {env.home}"
    return f"fetch {env.wanted} from {env.home}" if env.home in env.unlocked else f"unlock {env.home}"


ARCHIVE = align_echo.TextEnvironment(
    Archive,
    step_limit=12,
    action_format="walk to the place | unlock the drawer | fetch the file from the drawer | hand in the file",
    is_invalid=lambda observation: observation == REFUSED,
    expert=next_step,
)
