"""Build `embedded.json`: sample games for each split and type, and list those the expert wins.

    python -m align_echo.wrappers.alfworld.build_manifest [output]

A game the expert does not win within the step limit is dropped, and another is drawn. Prints counts per split and
type, and the number of dropped games. Takes some minutes.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from align_echo.base.dice import Dice
from align_echo.base.files import write_atomically
from align_echo.wrappers.alfworld.data import FILE, EmbeddedGames, ListedGame, digest, encode
from align_echo.wrappers.alfworld.games import (
    GENERATOR_VERSION,
    SEEN,
    UNSEEN,
    floor_plan,
    game_id,
    goals_for,
    write_game,
)
from align_echo.wrappers.alfworld.oracle import GameEngine, GameSpec, HouseOracle
from align_echo.wrappers.alfworld.reference import make_engine
from align_echo.wrappers.alfworld.spec import GAME, STEP_LIMIT, TASK_TYPES, TRAJECTORY

SIZES = {
    "train": dict.fromkeys(TASK_TYPES, 40),
    "valid_seen": dict.fromkeys(TASK_TYPES, 10),
    "valid_unseen": {
        "pick_and_place_simple": 24,
        "pick_clean_then_place_in_recep": 31,
        "pick_heat_then_place_in_recep": 23,
        "pick_cool_then_place_in_recep": 21,
        "look_at_obj_in_light": 18,
        "pick_two_obj_and_place": 17,
    },
}
"""Games per split and type; valid_unseen has ALFWorld's own 134 in its own proportions."""


def candidates(split: str, task_type: str, used: set[str]) -> Iterator[str]:
    """Yield ids in the order to try them: rooms in turn, with a random goal in each; no goal of a room twice."""
    dice = Dice(f"manifest {GENERATOR_VERSION} {split} {task_type}")
    plans = [
        number for number in (UNSEEN if split == "valid_unseen" else SEEN) if goals_for(floor_plan(number), task_type)
    ]
    number = 0
    for _ in range(100):
        for plan in dice.shuffled(plans):
            number += 1
            id_ = game_id(split, dice.pick(goals_for(floor_plan(plan), task_type)), plan, number)
            folder = id_.split("/")[1]
            if folder not in used:
                used.add(folder)
                yield id_


def expert_steps(id_: str, engine: GameEngine) -> int | None:
    """Count the expert's actions; None if it does not win within the step limit."""
    files = write_game(id_)
    record = json.loads(files[GAME])
    game = GameSpec(record["pddl_domain"], record["grammar"], record["pddl_problem"])
    oracle = HouseOracle(engine, engine.reset(game), json.loads(files[TRAJECTORY]))
    for step in range(STEP_LIMIT):
        action = oracle.handcoded_action()
        if engine.won or action is None:
            return step if engine.won and step else None
        oracle.record(action, engine.step(action))
    return STEP_LIMIT if engine.won else None


def build() -> tuple[EmbeddedGames, Counter[str]]:
    """Build the list of games, and count the dropped games by split and type."""
    engine = make_engine("fast")
    entries: dict[str, ListedGame] = {}
    dropped: Counter[str] = Counter()
    used: set[str] = set()
    for split, sizes in SIZES.items():
        for task_type, size in sizes.items():
            count = 0
            for id_ in candidates(split, task_type, used):
                steps = expert_steps(id_, engine)
                if steps is None:
                    dropped[f"{split} {task_type}"] += 1
                    continue
                entries[id_] = ListedGame(id_, digest(write_game(id_)), steps)
                count += 1
                if count == size:
                    break
            print(f"{split} {task_type}: {count} of {size}, {dropped[f'{split} {task_type}']} dropped", flush=True)
    versions = {"generator": str(GENERATOR_VERSION)} | {
        name: metadata.version(name) for name in ("alfworld", "textworld", "fast_downward_textworld")
    }
    return EmbeddedGames(versions, entries), dropped


def main() -> None:
    """Build and write the manifest, to this file's folder or to a path on the command line."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name(FILE)
    games, dropped = build()
    write_atomically(target, encode(games))
    print(f"{len(games.entries)} games listed, {sum(dropped.values())} dropped: {target}")


if __name__ == "__main__":
    main()
