"""Episodes as one HTML file that needs nothing else: the page of `page/`, with the data in it.

    file, packed = write_page([Path("runs/first")])

The data are JSON in script elements that no browser runs: an index with a row for each episode, and the episodes in
chunks, which the page reads when they are looked at. Where they are many they are compressed. The page's policy lets
nothing in from outside and runs no script but its own, which it knows by its hash. Keys and passwords are taken out.

Left out: the list, the turns and the search, which the page makes (`page/*.js`).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from align_echo.errors import UsageError
from align_echo.files import write_atomically
from align_echo.reading import json_object
from align_echo.redaction import without_secrets
from align_echo.runs import CONFIG
from align_echo.types import Step, Trajectory
from align_echo.view.critiques import Critiques, PlacedReview
from align_echo.view.evidence import provenances, rules_behind
from align_echo.view.finding import EpisodeFile, find_episodes
from align_echo.view.labels import Labels, OracleLabels
from align_echo.view.reading import DamagedLine, episodes_of, told

SCRIPTS = ("text.js", "data.js", "rows.js", "diff.js", "turns.js", "episode.js", "viewer.js")
"""The files of the page's script, in the order in which they use each other."""

CHUNK, MOST_IN_CHUNK = 400_000, 64
"""Characters, and episodes, after which a chunk is full."""

LARGE = 400_000
"""Characters of episodes beyond which all further ones are compressed."""

LONGEST_GOAL = 400
"""Characters of a goal that the list can be searched for; the episode has the whole."""

TITLE = "align-echo"


@dataclass
class Packed:
    """A page, how many episodes it holds, and what could not be read."""

    html: str
    episodes: int
    damaged: list[DamagedLine]


@dataclass
class _Index:
    """What the list knows of each episode, and the tables that its numbers point into."""

    rows: list[list[Any]] = field(default_factory=list)
    hints: dict[str, int] = field(default_factory=dict)
    interfaces: dict[str, int] = field(default_factory=dict)
    critiques: dict[str, int] = field(default_factory=lambda: {"": 0})
    fingerprints: dict[str, list[str]] = field(default_factory=dict)

    def label(self, played: Trajectory) -> str:
        """The label of an episode's interface, with a number where another interface has the same."""
        fingerprint = played.played_under.fingerprint if played.played_under else ""
        known = self.fingerprints.setdefault(played.interface, [])
        known += [fingerprint] if fingerprint not in known else []
        number = known.index(fingerprint) + 1
        return played.interface if number == 1 else f"{played.interface} ({number})"


def pack(parts: Sequence[EpisodeFile]) -> Packed:
    """All episodes of these files as a page. Raises `UsageError` if none can be read."""
    damaged: list[DamagedLine] = []
    index = _Index()
    said, labels = Critiques(parts, damaged), OracleLabels(parts, damaged)
    size = 0
    chunks = []
    for number, chunk in enumerate(_chunks(parts, said, labels, index, damaged)):
        size += len(chunk)
        chunks.append(_embedded(f"chunk-{number}", chunk, compressed=size > LARGE))
    if not index.rows:
        first = f"; {told(damaged)[0]}" if damaged else ""
        more = f" and {len(parts) - 1} more files" if len(parts) > 1 else ""
        raise UsageError(f"no episode can be read in {parts[0].file}{more}{first}")
    described = _embedded("index", _described(parts, index, damaged), compressed=size > LARGE)
    data = "\n".join([described, *chunks])
    runs = list(dict.fromkeys(part.run for part in parts))
    title = runs[0] if len(runs) == 1 else f"{runs[0]} and {len(runs) - 1} more"
    return Packed(_page(f"{title} - {TITLE}", data), len(index.rows), damaged)


def write_page(paths: Sequence[Path], out: Path | None = None) -> tuple[Path, Packed]:
    """Write the page of these paths to `out`, or to the first one's name with .html in this folder.

    Raises `UsageError` for paths without episodes, and for an `out` that cannot be such a file.
    """
    parts = find_episodes(paths)
    file = out or Path(f"{paths[0].resolve().name.removesuffix('.jsonl') or 'view'}.html")
    if file.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out names an .html file, not {file}")
    if file.is_dir():
        raise UsageError(f"{file} is a folder: name another file with --out")
    if not file.parent.is_dir():
        raise UsageError(f"there is no folder {file.parent} for {file.name}: make it, or name another --out")
    packed = pack(parts)
    return write_atomically(file, packed.html), packed


# ---------------------------------------------------------------- data


def _chunks(
    parts: Sequence[EpisodeFile], said: Critiques, labels: OracleLabels, index: _Index, damaged: list[DamagedLine]
) -> Iterator[str]:
    """The episodes as JSON lists of a size that is read at once; fills the index."""
    held: list[str] = []
    size = number = 0
    for part_number, part in enumerate(parts):
        for trajectory in episodes_of(part.file, damaged):
            heard = said.of(part, trajectory.task_id, trajectory.sample, trajectory.critique)
            episode = _json(_episode(trajectory, heard, labels.of(part, trajectory)))
            if held and (size + len(episode) > CHUNK or len(held) == MOST_IN_CHUNK):
                yield f"[{','.join(held)}]"
                held, size, number = [], 0, number + 1
            index.rows.append(_row(trajectory, heard, index, part_number, (number, len(held))))
            held.append(episode)
            size += len(episode)
    if held:
        yield f"[{','.join(held)}]"


def _row(
    played: Trajectory, heard: Sequence[PlacedReview], index: _Index, part: int, where: tuple[int, int]
) -> list[Any]:
    """An episode in the list. `page/data.js` names the columns in this order."""
    hints = {event: _number(index.hints, event.rule) for step in played.steps for event in step.hints}
    errors = bool(played.reset_error) + sum(bool(step.interface_error) for step in played.steps)
    violations = len(played.reset_violations) + sum(len(step.violations) + len(step.forged) for step in played.steps)
    problems = sum(bool(step.problem) or step.cut_off for step in played.steps)
    return [
        part,
        played.task_id,
        played.task_type,
        played.sample,
        "fault" if played.fault else "won" if played.won else "lost",
        None if played.fault else played.score,
        len(played.steps),
        played.usage.tokens,
        sorted({number for event, number in hints.items() if event.fired}),
        errors,
        violations,
        problems,
        _number(index.interfaces, index.label(played)),
        _number(index.critiques, played.critique),
        [[part_said.part, _number(index.critiques, part_said.review.advice)] for part_said in heard],
        played.goal[:LONGEST_GOAL],
        *where,
    ]


def _episode(played: Trajectory, heard: Sequence[PlacedReview], labels: Sequence[Labels]) -> dict[str, Any]:
    """An episode without what is as it always is, and with what a critic and an oracle said of it."""
    told_of = played.model_dump(exclude_defaults=True, exclude={"steps", "played_under"})
    reviews = [each.review.model_dump(exclude_defaults=True, exclude={"tokens"}) for each in heard]
    turns = [_turn(step, of_turn) for step, of_turn in zip(played.steps, labels, strict=True)]
    return {**told_of, "steps": turns, **({"reviews": reviews} if reviews else {})}


def _turn(step: Step, labels: Labels) -> dict[str, Any]:
    """A turn: no reply where it is the action, no raw observation where it is what was shown, tokens counted."""
    turn = step.model_dump(exclude_defaults=True, exclude={"tokens"})
    if turn["reply"] == turn["action"]:
        del turn["reply"]
    if turn["raw_observation"] == turn["observation"]:
        del turn["raw_observation"]
    if step.tokens is not None:
        turn["tokens"] = [step.tokens.end - len(step.tokens.sampled_ids), len(step.tokens.sampled_ids)]
    return turn | ({"labels": labels} if labels else {})


def _described(parts: Sequence[EpisodeFile], index: _Index, damaged: Sequence[DamagedLine]) -> str:
    """The index as JSON: parts, rows, tables, and the rules on record of the interfaces with what they stand behind."""
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
            "damaged": told(list(damaged)),
        }
    )


def _number(table: dict[str, int], text: str) -> int:
    """The number of a text in a table, which has it from now on."""
    return table.setdefault(text, len(table))


def _json(value: Any) -> str:
    """JSON that every browser reads: a number that is none is null. Keys and passwords are taken out."""
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


def _embedded(name: str, text: str, *, compressed: bool) -> str:
    """JSON in an element of its own: nothing in it can end the element."""
    if compressed:
        text = json.dumps({"gzip": base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()})
    return f'<script type="application/json" id="{name}">{text.replace("<", chr(92) + "u003c")}</script>'


def _page(title: str, data: str) -> str:
    page = resources.files("align_echo.view").joinpath("page")
    style = page.joinpath("viewer.css").read_text(encoding="utf-8")
    pieces = (page.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    script = '"use strict";\n(() => {\n' + "\n".join(pieces) + "})();\n"
    policy = f"default-src 'none'; script-src {hash_source(script)}; style-src {hash_source(style)}; img-src data:"
    policy += "; base-uri 'none'; form-action 'none'"
    template = Template(page.joinpath("template.html").read_text(encoding="utf-8"))
    named = html.escape(without_secrets(_plain(title)))
    return template.substitute(title=named, policy=policy, style=style, script=script, data=data)


def hash_source(text: str) -> str:
    """How a content security policy names a script or a style that stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _plain(title: str) -> str:
    return re.sub(r"[^\w ./()-]+", " ", title)
