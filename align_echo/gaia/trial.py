"""Evaluate a critic: its opinion of every candidate of a collection, and the success of selection by it.

    config.json       the settings; a resumed trial must have the same
    opinions.jsonl    the critic's opinions, episode by episode (`opinions.py`)
    summary.json      `TrialResult`, written last

Not here: the figures (`figures.py`), and the critics (`critic/scoring.py`, `critic/reasoning.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from align_echo import __version__
from align_echo.agents.catalogue import AGENTS, agent_spec
from align_echo.agents.conversation import ChatAgent
from align_echo.agents.spec import AgentSetting
from align_echo.critic.labels import Rule
from align_echo.critic.opinion import CriticOpinion
from align_echo.critic.reasoning import ReasoningCritic
from align_echo.critic.scoring import ActionCritic, IntuitiveCritic, read_calibration
from align_echo.errors import UsageError
from align_echo.evaluate.folder import Config, check_folder, open_folder
from align_echo.evaluate.plan import refuse_script
from align_echo.files import write_atomically
from align_echo.gaia.collection import default_episode_rule, read_collection
from align_echo.gaia.figures import TrialResult, collect_states, measure_trial
from align_echo.gaia.labelling import Conversation, proposed_actions
from align_echo.gaia.opinions import RatedEpisode, opinions, without_repeats
from align_echo.models import ScriptedModel, load_model
from align_echo.models.names import ModelName, read_name
from align_echo.models.recording import get_weights
from align_echo.progress import SILENT, Progress
from align_echo.reading import parse_json
from align_echo.regular_files import read_text
from align_echo.runs import CONFIG
from align_echo.train.needs import require_reports
from align_echo.wrappers.catalogue import environment, recorded_environment

COMMAND = "critic evaluate"
PROGRESS_EVERY = 10
"""Episodes between two progress lines."""


def run_trial(
    judge: str | ModelName,
    collections: Sequence[Path],
    path: Path,
    *,
    rule: Rule | None = None,
    env: str | None = None,
    agent: str | None = None,
    base_url: str | None = None,
    seed: int = 0,
    votes: int | None = None,
    resume: bool = False,
    progress: Progress = SILENT,
) -> TrialResult:
    """Evaluate the critic on all collections together, each episode once; writes `summary.json`, a `TrialResult`.

    `judge` is a model's name or folder. `votes` is how often a reasoning critic is asked about an action; None for an
    intuitive critic. `env` and `agent` name your own (`module:Name`) if the collections use them. Raises `UsageError`,
    also if the rule labels nothing or the critic never gives a verdict, and `ModelError` for a model that cannot be
    asked.
    """
    require_reports()
    if env is not None:
        environment(env)
    if agent is not None:
        agent_spec(agent)
    judge = read_name(judge)
    refuse_script("--judge", judge)
    all_episodes = [episode for collection in collections for episode in read_episodes(collection)]
    episodes = without_repeats(all_episodes)
    played, labelled = [episode.trajectory for episode in episodes], [episode.labels for episode in episodes]
    chosen = rule or default_episode_rule(zip(played, labelled, strict=True))
    no_opinions: list[dict[str, CriticOpinion]] = [{}] * sum(len(trajectory.steps) for trajectory in played)
    if not any(state.labels for state in collect_states(played, labelled, no_opinions, chosen)):
        raise UsageError(f"no state has candidates that are all labelled by the rule {chosen!r}: try another --rule")
    if judge.folder and _has_vision(judge.folder):
        raise UsageError(f"{judge} is a critic on screens: put it on trial with align-echo critic gui-steps")
    temperature = read_calibration(judge.folder).temperature if judge.folder and votes is None else 1.0
    model = load_model(judge, base_url=base_url, seed=seed)
    critic: ActionCritic = IntuitiveCritic(model, temperature) if votes is None else ReasoningCritic(model, votes)
    config: Config = {
        "command": COMMAND,
        "align_echo": __version__,
        "critic": get_weights(model) or judge.text,
        "base_url": judge.endpoint(base_url),
        "asked": {**critic.describe()},
        "rule": chosen,
        "seed": seed,
        "episodes": hashlib.sha256(" ".join(episode.digest for episode in episodes).encode()).hexdigest(),
    }
    check_folder(path, config, resume=resume)
    if len(episodes) < len(all_episodes):
        repeated = len(all_episodes) - len(episodes)
        progress.say(f"{repeated} episodes are in several of the collections: each counts once")
    actions = sum(len(proposed_actions(step)) for trajectory in played for step in trajectory.steps)
    progress.say(f"asking {judge} about {actions:,} actions")
    lock = open_folder(path, config, resume=resume)
    by_turn = opinions(critic, episodes, path, on_episode=lambda done: _report_progress(progress, done, len(episodes)))
    if not any(opinion.verdict or opinion.logit is not None for turn in by_turn for opinion in turn.values()):
        raise UsageError(f"{judge} said neither correct nor wrong of any action: it cannot be put on trial")
    result = measure_trial(
        collect_states(played, labelled, by_turn, chosen), chosen, temperature=temperature, seed=seed
    )
    write_atomically(path / "summary.json", result.model_dump_json(indent=2) + "\n")
    lock.close()
    return result


def _has_vision(folder: Path) -> bool:
    """Return whether the model of a folder has a vision part."""
    try:
        config = parse_json(read_text(folder / "config.json"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "vision_config" in config


def _report_progress(progress: Progress, done: int, count: int) -> None:
    if done % PROGRESS_EVERY == 0 and done < count:
        progress.say(f"{done} of {count} episodes")


def read_episodes(collection: Path) -> list[RatedEpisode]:
    """Read the episodes of a finished collection. Raises as `read_collection` and `conversation_for` do."""
    played, labelled = read_collection(collection)
    chat = conversation_for(collection)
    return [RatedEpisode(trajectory, labels, *chat) for trajectory, labels in zip(played, labelled, strict=True)]


def conversation_for(collection: Path) -> tuple[Conversation, str]:
    """Return the conversation function of a collection's agent, and the action format of its environment.

    Raises `UsageError` for an unknown agent.
    """
    try:
        config = parse_json(read_text(collection / CONFIG))
        agent, env, split = config["agent"], config["environment"], config["split"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{collection / 'config.json'} does not say which agent played: collect anew") from error
    source = str(collection / CONFIG)
    spec = recorded_environment(env, source, f"add --env {env}")
    recorded_agent = AGENTS.recorded(agent, source, f"add --agent {agent}")
    player = recorded_agent.build(AgentSetting(spec, split, model=ScriptedModel(())))
    if not isinstance(player, ChatAgent):
        raise UsageError(f"the agent {agent} of {collection} asks no model: collect anew")
    return player.conversation, spec.action_format
