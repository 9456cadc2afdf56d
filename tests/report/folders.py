"""Folders of runs as verbs write them, without playing: settings by the real configs, lines by the real writers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from align_echo.base.jsonl import JsonlFile
from align_echo.critic.ask import Verdict
from align_echo.critic.language import Critique
from align_echo.evaluate.comparison import VariantComparison
from align_echo.train.rollouts import CritiquedAttempt

FIGURE = {"value": 0.5, "n": 8, "ci95": [0.25, 0.75]}


def write_json(file: Path, value: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))
    return file


def trained(
    folder: Path,
    method: str = "echo",
    *,
    seed: int = 1,
    scores: Sequence[Sequence[tuple[float, float]]] = (),
    signals: Sequence[Mapping[str, float]] = (),
    held_out: Mapping[int, float] | None = None,
    reasons: Sequence[Sequence[str]] = (),
) -> Path:
    """A training run with, step by step, pairs of scores, signals, and the reasons of kept critiques."""
    from align_echo.train.config import checked_config, merged
    from align_echo.train.config import method as values_of
    from align_echo.train.run_folder import append

    config = checked_config(merged(values_of(method), {"env": "webshop", "seed": seed}), method)
    settings = {"command": "train", "interface": "none", "config": config.model_dump(mode="json")}
    write_json(folder / "config.json", settings)
    steps = max(len(scores), len(signals), len(reasons))
    for step in range(1, steps + 1):
        told = signals[step - 1] if step <= len(signals) else {}
        append(folder / "signals.jsonl", {"step": step, "environment_steps": 10, **told})
        if step <= len(scores):
            append(folder / "refinements.jsonl", {"step": step, "scores": list(scores[step - 1])})
        for reason in reasons[step - 1] if step <= len(reasons) else ():
            critique = Critique(reason=reason, suggestions=("look",))
            review = Verdict(form="echo", reply=f"<reason>{reason}</reason>", critique=critique)
            kept = CritiquedAttempt(task_id="goal-1", attempt=0, review=review)
            JsonlFile(folder / "critiques" / f"{step}.jsonl").append(kept)
    for step, score in (held_out or {}).items():
        figures = {"score": {**FIGURE, "value": score, "ci95": [0.0, 1.0]}, "success": FIGURE}
        append(folder / "held_out.jsonl", {"step": step, **figures})
    write_json(folder / "summary.json", {"steps": steps})
    return folder


def evaluated(folder: Path, **changes: Any) -> Path:
    """An evaluation of a station with its placebo, as a summary alone; `changes` are of the summary."""
    summary = VariantComparison.model_validate({**_comparison(), **changes})
    labels = {"none": "none", "placebo": "mine@0123456789abcdef-placebo", "full": "mine@0123456789abcdef"}
    settings = {"command": "evaluate", "environment": "station", "agent": summary.agent, "tasks": ["a", "b"], "seed": 0}
    write_json(folder / "config.json", {**settings, "interfaces": labels})
    (folder / "summary.json").write_text(summary.model_dump_json())
    return folder


def hint(rule: str = "first `unseal _`.", **counts: int) -> dict[str, Any]:
    return {"rule": rule, "fired": 10, "followed": 8, "came_true": 6, "failed": 1, "silenced": 1, **counts}


def variant(won: float, **fields: Any) -> dict[str, Any]:
    """What one variant measured on 8 tasks."""
    estimate, refused = (
        {"value": share, "n": 8, "ci95": [max(share - 20, 0), min(share + 20, 100)]} for share in (won, 100 - won)
    )
    return {
        "interface": "mine", "episodes": 8, "faults": 0, "success_rate": estimate, "mean_score": FIGURE,
        "consecutive_invalid": refused, "consecutive_invalid_shown": estimate,
        "unparsed": FIGURE, "cut_off": FIGURE, "context_overflows": 0, "mean_turns": 3.0, "engine_calls": 24,
        "interface_fallbacks": 0, "violations": 0, "usage": {}, "success_by_type": {}, **fields,
    }  # fmt: skip


def _comparison() -> dict[str, Any]:
    worth = {"value": 50.0, "n": 8, "ci95": [20.0, 80.0]}
    over = {"tasks": 8, "success_points": worth, "score": FIGURE, "invalid_points": None, "invalid_reduction": None}
    return {
        "environment": "station", "split": "test", "agent": "novice", "seed": 0, "tasks": ["a", "b"],
        "variants": {
            "full": variant(75.0, hints=[hint()]),
            "placebo": variant(25.0, hints=[hint(followed=2, came_true=0, failed=0)]),
            "none": variant(12.5),
        },
        "differences": {}, "over_placebo": {"full": over},
    }  # fmt: skip
