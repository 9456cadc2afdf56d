"""Build the ALFWorld data files in the package: `tables.json`, and `fast/compiled.zip` with the listed games.

    python -m align_echo.wrappers.alfworld.build_data

Needs the extra `alfworld`. Takes some minutes. Run `build_manifest.py` first; it chooses the games.
"""

from __future__ import annotations

import importlib.util
import json
from importlib import metadata
from pathlib import Path
from typing import Any

from align_echo.base.files import write_atomically
from align_echo.wrappers.alfworld import oracle
from align_echo.wrappers.alfworld.data import load_embedded as listed_games
from align_echo.wrappers.alfworld.fast import shipped
from align_echo.wrappers.alfworld.fast.compiler import compile_game
from align_echo.wrappers.alfworld.games import FILE, ROOMS, write_game
from align_echo.wrappers.alfworld.oracle import GameSpec
from align_echo.wrappers.alfworld.spec import GAME, TASK_TYPES


def tables_text() -> str:
    """Build `tables.json` from ALFWorld's wheel, identical in every process."""
    spec = importlib.util.find_spec("alfworld")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    tables: Any = oracle.load("alfworld.gen.constants")
    goals = oracle.load("alfworld.gen.goal_library").gdict
    record = {
        "version": metadata.version("alfworld"),
        "domain": (package / "data" / "alfred.pddl").read_text(encoding="utf-8"),
        "grammar": (package / "data" / "alfred.twl2").read_text(encoding="utf-8"),
        "objects": sorted(tables.OBJECTS_SET),
        "receptacles": sorted(tables.RECEPTACLES),
        "movable": sorted(tables.MOVABLE_RECEPTACLES_SET),
        "openable": sorted(tables.OPENABLE_CLASS_SET),
        "holds": _by_kind(tables.VAL_RECEPTACLE_OBJECTS),
        "able": _by_kind(tables.VAL_ACTION_OBJECTS),
        "rooms": _by_kind({kind: tables.GOALS_VALID[kind] for kind in TASK_TYPES}),
        "goals": {kind: (goals[kind]["pddl"], goals[kind]["templates"]) for kind in TASK_TYPES},
        "layouts": {str(number): _layout(package, number) for numbers in ROOMS.values() for number in numbers},
    }
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(part)}" for name, part in record.items()) + "\n}\n"


def _by_kind(table: dict[str, set[str]]) -> dict[str, list[str]]:
    return {kind: sorted(kinds) for kind, kinds in sorted(table.items())}


def _layout(package: Path, number: int) -> tuple[list[str], dict[str, list[float]]]:
    folder = package / "gen" / "layouts"
    occurring = json.loads((folder / f"FloorPlan{number}-objects.json").read_text(encoding="utf-8"))
    placed = json.loads((folder / f"FloorPlan{number}-openable.json").read_text(encoding="utf-8"))
    return sorted(set(occurring)), dict(sorted(placed.items()))


def listed_game(task_id: str) -> GameSpec:
    """Return the texts of an embedded game, without its files."""
    record = json.loads(write_game(task_id)[GAME])
    return GameSpec(record["pddl_domain"], record["grammar"], record["pddl_problem"])


def main() -> None:
    """Write both files to this file's folder."""
    folder = Path(__file__).parent
    write_atomically(folder / FILE, tables_text())
    games = [listed_game(task_id) for task_id in listed_games().entries]
    compiled = {shipped.archive_name(game): compile_game(game.domain, game.grammar, game.problem) for game in games}
    shipped.write_archive(compiled, folder / "fast" / shipped.FILE)
    print(f"{len(compiled)} games compiled: {folder / 'fast' / shipped.FILE}")


if __name__ == "__main__":
    main()
