"""Episodes as one self-contained HTML file: the page of `page/` with the data inside.

    file, packed = write_page([Path("runs/first")])

The data are JSON in non-executed script elements: an index with a row per episode, and the episodes in chunks, loaded
by the page on demand and compressed beyond a size. The page's policy forbids outside content and allows its own script
only, by its hash. Keys and passwords are removed.

Not here: list, turns and search, which the page builds (`page/*.js`).
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from align_echo.base.files import write_atomically
from align_echo.base.plain_yaml import json_object
from align_echo.errors import UsageError, without_secrets
from align_echo.report.html_page import check_html_file, fill_page
from align_echo.report.view.listing import provenances, rules_behind
from align_echo.report.view.reading import CritiqueIndex, Labels, OracleLabels, PlacedCritique
from align_echo.rollout.episode_files import DamagedLine, EpisodeFile, describe_damage, find_episodes, read_episodes
from align_echo.run_dir import CONFIG
from align_echo.types import Step, Trajectory

SCRIPTS = ("text.js", "data.js", "rows.js", "diff.js", "turns.js", "episode.js", "viewer.js")
"""Files of the page's script, in the order of their dependencies."""

CHUNK, MOST_IN_CHUNK = 400_000, 64
"""Most characters, and most episodes, of a chunk."""

LARGE = 400_000
"""Characters of episodes beyond which the rest is compressed."""

LONGEST_GOAL = 400
"""Most characters of a goal in the searchable list; the episode has the full goal."""

TITLE = "align-echo"


@dataclass
class PackedPage:
    """A page, its number of episodes, and the damaged lines."""

    html: str
    episodes: int
    damaged: list[DamagedLine]


@dataclass
class _Index:
    """Rows of the list, one per episode, and the tables their numbers refer to."""

    rows: list[list[Any]] = field(default_factory=list)
    hints: dict[str, int] = field(default_factory=dict)
    interfaces: dict[str, int] = field(default_factory=dict)
    critiques: dict[str, int] = field(default_factory=lambda: {"": 0})
    fingerprints: dict[str, list[str]] = field(default_factory=dict)

    def label(self, trajectory: Trajectory) -> str:
        """Return the label of an episode's interface, numbered if several interfaces share it."""
        fingerprint = trajectory.played_under.fingerprint if trajectory.played_under else ""
        known = self.fingerprints.setdefault(trajectory.interface, [])
        known += [fingerprint] if fingerprint not in known else []
        number = known.index(fingerprint) + 1
        return trajectory.interface if number == 1 else f"{trajectory.interface} ({number})"


def pack(parts: Sequence[EpisodeFile]) -> PackedPage:
    """Put all episodes of these files into a page. Raises `UsageError` if none can be read."""
    damaged: list[DamagedLine] = []
    index = _Index()
    critiques, labels = CritiqueIndex(parts, damaged), OracleLabels(parts, damaged)
    size = 0
    chunks = []
    for number, chunk in enumerate(_chunks(parts, critiques, labels, index, damaged)):
        size += len(chunk)
        chunks.append(_embed(f"chunk-{number}", chunk, compressed=size > LARGE))
    if not index.rows:
        first = f"; {describe_damage(damaged)[0]}" if damaged else ""
        more = f" and {len(parts) - 1} more files" if len(parts) > 1 else ""
        raise UsageError(f"no episode can be read in {parts[0].file}{more}{first}")
    index_data = _embed("index", _serialise_index(parts, index, damaged), compressed=size > LARGE)
    data = "\n".join([index_data, *chunks])
    runs = list(dict.fromkeys(part.run for part in parts))
    title = runs[0] if len(runs) == 1 else f"{runs[0]} and {len(runs) - 1} more"
    return PackedPage(_page(f"{title} - {TITLE}", data), len(index.rows), damaged)


def write_page(paths: Sequence[Path], out: Path | None = None) -> tuple[Path, PackedPage]:
    """Write the page of these paths to `out`, or to the name of the first path with .html in the current folder.

    Raises `UsageError` for paths without episodes, and for an unusable `out`.
    """
    parts = find_episodes(paths)
    file = out or Path(f"{paths[0].resolve().name.removesuffix('.jsonl') or 'view'}.html")
    check_html_file(file)
    packed = pack(parts)
    return write_atomically(file, packed.html), packed


# ---------------------------------------------------------------- data


def _chunks(
    parts: Sequence[EpisodeFile],
    critiques: CritiqueIndex,
    labels: OracleLabels,
    index: _Index,
    damaged: list[DamagedLine],
) -> Iterator[str]:
    """Generate the episodes as JSON lists, one per chunk; fills the index."""
    chunk: list[str] = []
    size = number = 0
    for part_number, part in enumerate(parts):
        for trajectory in read_episodes(part.file, damaged):
            reviews = critiques.for_episode(part, trajectory.task_id, trajectory.sample, trajectory.critique)
            episode = _json(_episode(trajectory, reviews, labels.for_episode(part, trajectory)))
            if chunk and (size + len(episode) > CHUNK or len(chunk) == MOST_IN_CHUNK):
                yield f"[{','.join(chunk)}]"
                chunk, size, number = [], 0, number + 1
            index.rows.append(_row(trajectory, reviews, index, part_number, (number, len(chunk))))
            chunk.append(episode)
            size += len(episode)
    if chunk:
        yield f"[{','.join(chunk)}]"


def _row(
    trajectory: Trajectory, reviews: Sequence[PlacedCritique], index: _Index, part: int, position: tuple[int, int]
) -> list[Any]:
    """Build an episode's row in the list. `page/data.js` names the columns in this order."""
    hints = {event: _number(index.hints, event.rule) for step in trajectory.steps for event in step.hints}
    errors = bool(trajectory.reset_error) + sum(bool(step.interface_error) for step in trajectory.steps)
    violations = len(trajectory.reset_violations)
    violations += sum(len(step.violations) + len(step.forged) for step in trajectory.steps)
    problems = sum(bool(step.problem) or step.cut_off for step in trajectory.steps)
    return [
        part,
        trajectory.task_id,
        trajectory.task_type,
        trajectory.sample,
        "fault" if trajectory.fault else "won" if trajectory.won else "lost",
        None if trajectory.fault else trajectory.score,
        len(trajectory.steps),
        trajectory.usage.tokens,
        sorted({number for event, number in hints.items() if event.fired}),
        errors,
        violations,
        problems,
        _number(index.interfaces, index.label(trajectory)),
        _number(index.critiques, trajectory.critique),
        [[placed.part, _number(index.critiques, placed.review.advice)] for placed in reviews],
        trajectory.goal[:LONGEST_GOAL],
        *position,
    ]


def _episode(
    trajectory: Trajectory, placed_reviews: Sequence[PlacedCritique], labels: Sequence[Labels]
) -> dict[str, Any]:
    """Serialise an episode without default values, with its critiques and labels."""
    fields = trajectory.model_dump(exclude_defaults=True, exclude={"steps", "played_under"})
    reviews = [placed.review.model_dump(exclude_defaults=True, exclude={"tokens"}) for placed in placed_reviews]
    turns = [_turn(step, turn_labels) for step, turn_labels in zip(trajectory.steps, labels, strict=True)]
    return {**fields, "steps": turns, **({"reviews": reviews} if reviews else {})}


def _turn(step: Step, labels: Labels) -> dict[str, Any]:
    """Serialise a turn: no reply if it is the action, no raw observation if it is the observation, tokens as counts."""
    turn = step.model_dump(exclude_defaults=True, exclude={"tokens"})
    if turn["reply"] == turn["action"]:
        del turn["reply"]
    if turn["raw_observation"] == turn["observation"]:
        del turn["raw_observation"]
    if step.tokens is not None:
        turn["tokens"] = [step.tokens.end - len(step.tokens.sampled_ids), len(step.tokens.sampled_ids)]
    return turn | ({"labels": labels} if labels else {})


def _serialise_index(parts: Sequence[EpisodeFile], index: _Index, damaged: Sequence[DamagedLine]) -> str:
    """Serialise the index: parts, rows, tables, and the recorded rules of the interfaces with the messages they fit."""
    folders = list(dict.fromkeys(part.folder for part in parts))
    known = provenances(index.interfaces, folders)
    interfaces: list[dict[str, Any]] = []
    for label in index.interfaces:
        provenance = known.get(label)
        if provenance is None:
            interfaces.append({"label": label, "rules": [], "behind": []})
            continue
        rules = [
            [rule.text, rule.evidence.support, rule.evidence.refuted, rule.evidence.tasks,
             rule.evidence.counterexample, rule.untested]
            for rule in provenance.rules
        ]  # fmt: skip
        behind = [rules_behind(hint, provenance.rules) for hint in index.hints]
        interfaces.append({"label": label, "backend": provenance.backend, "rules": rules, "behind": behind})
    samples = {folder: (json_object(folder / CONFIG) or {}).get("episodes_per_task") for folder in folders}
    return _json(
        {
            "parts": [[part.run, part.part, samples[part.folder] or 1] for part in parts],
            "rows": index.rows,
            "hints": list(index.hints),
            "interfaces": interfaces,
            "damaged": describe_damage(list(damaged)),
        }
    )


def _number(table: dict[str, int], text: str) -> int:
    """Return the number of a text in a table, adding it if it is new."""
    return table.setdefault(text, len(table))


def _json(value: Any) -> str:
    """Serialise to JSON for every browser: NaN becomes null. Keys and passwords are removed."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    return without_secrets(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and value - value != 0 else value


# ---------------------------------------------------------------- the page


def _embed(name: str, text: str, *, compressed: bool) -> str:
    """Put JSON into an element; it cannot close the element."""
    if compressed:
        text = json.dumps({"gzip": base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()})
    return f'<script type="application/json" id="{name}">{text.replace("<", chr(92) + "u003c")}</script>'


def _page(title: str, data: str) -> str:
    page = resources.files("align_echo.report.view").joinpath("page")
    pieces = (page.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    script = '"use strict";\n(() => {\n' + "\n".join(pieces) + "})();\n"
    return fill_page(page, "viewer.css", script=script, title=without_secrets(_plain(title)), data=Markup(data))


def _plain(title: str) -> str:
    return re.sub(r"[^\w ./()-]+", " ", title)
