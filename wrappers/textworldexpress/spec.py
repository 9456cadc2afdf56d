"""Static facts about TextWorldExpress, without Java: games, splits, task ids, action forms, invalid actions.

A task id is `<game>/<seed>`: `coin/20003`. The engine generates a game of its default size from the seed; the thousands
of the seed are upstream's fold. Upstream's games of other sizes are not supported.
"""

from __future__ import annotations

from align_echo.errors import UsageError, did_you_mean, install_line
from align_echo.interface.contract import InterfaceContract

GAMES = ("cookingworld", "twc", "coin", "mapreader", "arithmetic", "sorting", "simonsays", "peckingorder")

SEEDS = {"train": range(1000), "dev": range(10_000, 11_000), "test": range(20_000, 21_000)}
"""Upstream's folds: no seed, and so no game, is in two of them."""

STEP_LIMIT = 100
"""Turns of an episode, as upstream's default."""

ACTION_FORMAT = """\
One short command a turn, with the names that the text uses. Which forms there are depends on the game:
look around | inventory | task | move {direction} | open {thing} | close {thing} | open door to {direction}
take {thing} | put {thing} in {thing} | examine {thing} | read {thing} | eat {thing} | prepare meal
cook {thing} in {thing} | slice {thing} with {thing} | chop {thing} with {thing} | dice {thing} with {thing}"""

LOOKS = ("look around", "inventory")

CONTRACT = InterfaceContract(
    environment="textworldexpress",
    infer_rules_args=("init_obs", "task"),
    wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
    step_layout="single",
    read_only_actions=LOOKS,
)

REFUSAL = "Unknown action: I'm not sure what you mean."

INSTALL = install_line("textworldexpress")


def is_invalid(observation: str) -> bool:
    """Check if the engine did not know the action, or does not allow it in the present state: both have one answer."""
    return observation.startswith("Unknown action")


def task_type(task_id: str) -> str:
    """Return the game, the first part of a task id."""
    return task_id.partition("/")[0]


def task_ids(split: str) -> tuple[str, ...]:
    """Return the ids of a split, by game and then by seed."""
    return tuple(f"{game}/{seed}" for game in GAMES for seed in SEEDS[split])


def read_task(task_id: str, split: str) -> tuple[str, int]:
    """Parse an id into game and seed. Raises `UsageError` for an unknown game, or a seed outside the split."""
    game, _, number = task_id.partition("/")
    if game not in GAMES:
        hint = did_you_mean(game, GAMES)
        raise UsageError(f"there is no task {task_id!r}: {hint}an id is <game>/<seed>, such as coin/20003")
    seeds = SEEDS[split]
    if not (number.isascii() and number.isdigit() and len(number) < 9 and str(int(number)) == number):
        raise UsageError(f"{task_id!r} does not end in a seed, as in {game}/{seeds[0]}")
    if int(number) not in seeds:
        raise UsageError(f"{game} has no seed {number} in split {split}; it has {seeds[0]} to {seeds[-1]}")
    return game, int(number)
