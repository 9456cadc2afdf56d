"""Attack on what a model claims: another call proposes counter-experiments, and they are played.

A claim is confirmed if it withstands in three tasks, with actions that its author did not play. One with a
counter-example is narrowed by its author or dropped; what was tried in fewer tasks is worded as what was played. Not
here: who claims (`hybrid`, `llm`), and the engine that plays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from align_echo.agents.parsing import spans, visible_code
from align_echo.align.experiments import clip
from align_echo.align.hybrid.hypotheses import said_as
from align_echo.align.hybrid.reading import json_values
from align_echo.errors import ReplyFormatError
from align_echo.interface.rules.model import ClaimTrial
from align_echo.prompts import render
from align_echo.registry import quantity

PROMPTS = ("analyzer/refute_system", "analyzer/refute", "analyzer/narrow")

MIN_TASKS = 3
"""Tasks in which a claim must withstand."""

SHOWN_TASKS = 6
"""Tasks whose openings are shown to the attacker."""

MOST_TRIALS = 12
"""Counter-experiments played of a claim."""

LONGEST_SENTENCE = 300
MOST_SENTENCES = 2

Openings = Sequence[tuple[str, str]]
"""Task ids with opening texts."""

Play = Callable[[str, Sequence[str]], str]
"""Plays actions from a task's beginning and returns the last answer."""


@dataclass
class Attack:
    """Trials to refute a claim. `own` are its author's experiments with their answers, and `played` the attacker's."""

    own: list[tuple[ClaimTrial, str]] = field(default_factory=list)
    played: list[tuple[ClaimTrial, str]] = field(default_factory=list)
    counterexample: tuple[str, str, str] | None = None

    @property
    def withstood(self) -> list[ClaimTrial]:
        """Trials that agreed and could have disagreed: some answers hold their text and others do not."""
        answers = [" ".join(answer.lower().split()) for _, answer in (*self.own, *self.played)]
        return [
            trial
            for trial, answer in self.played
            if not trial.objection(answer)
            and any(0 < sum(text in heard for heard in answers) < len(answers) for text in trial.texts)
        ]

    @property
    def tasks(self) -> set[str]:
        """Tasks of the trials that the claim withstood."""
        return {trial.task for trial in self.withstood}

    @property
    def confirms(self) -> bool:
        """True if the claim withstood in enough tasks, and not only with its author's actions."""
        known = {_same(trial.actions) for trial, _ in self.own}
        others = [trial for trial in self.withstood if _same(trial.actions) not in known]
        return self.counterexample is None and len(self.tasks) >= MIN_TASKS and bool(others)

    def play(self, trials: Sequence[ClaimTrial], play: Play) -> None:
        """Play counter-experiments until one disagrees; none is played that the author played."""
        known = {(trial.task, _same(trial.actions)) for trial, _ in self.own}
        for trial in sorted(trials, key=lambda trial: trial.task)[:MOST_TRIALS]:
            if (trial.task, _same(trial.actions)) in known:
                continue
            answer = play(trial.task, trial.actions)
            self.played.append((trial, answer))
            if problem := trial.objection(answer):
                self.counterexample = (trial.task, " | ".join(trial.actions), problem)
                return

    def as_played(self) -> str:
        """Word the trials that agreed as what was played, without a full stop; "" if nothing was seen."""
        tasks: dict[tuple[tuple[str, ...], str], set[str]] = {}
        for trial, answer in (*self.own, *self.played):
            if trial.sees.strip() and not trial.objection(answer):
                tasks.setdefault((trial.actions, trial.sees.strip()), set()).add(trial.task)
        most = sorted(tasks.items(), key=lambda pair: -len(pair[1]))[:MOST_SENTENCES]
        sentences = []
        for (actions, seen), where in most:
            before = f" after {', '.join(f'`{action}`' for action in actions[:-1])}" if len(actions) > 1 else ""
            sentence = f'in {quantity(len(where), "task")} `{actions[-1]}`{before} was answered with "{seen}"'
            sentences.append(clip(sentence, LONGEST_SENTENCE).replace("\n", " "))
        text = "; ".join(sentences)
        return text[:1].upper() + text[1:]


def attack_system(environment: str, action_format: str) -> str:
    """Return the attacker's role."""
    return render("analyzer/refute_system", {"environment": environment, "action_format": action_format})


def attack_prompt(claims: Sequence[tuple[str, Sequence[str]]], openings: Openings) -> str:
    """Ask for counter-experiments: (claim, experiments played already) and the tasks to play in."""
    return render(
        "analyzer/refute",
        {
            "claims": [{"text": text, "tried": tried} for text, tried in claims],
            "openings": [{"task_id": task_id, "text": text} for task_id, text in openings],
        },
    )


def narrow_prompt(refuted: Sequence[tuple[str, str]], *, experiments: str, nothing: str) -> str:
    """Ask a claim's author to narrow it: (claim, counter-example)."""
    claims = [{"text": text, "counterexample": counterexample} for text, counterexample in refuted]
    return render("analyzer/narrow", {"claims": claims, "experiments": experiments, "nothing": nothing})


def parse_attack(
    reply: str, claims: int, tasks: Collection[str], note: Callable[[str], None]
) -> dict[int, list[ClaimTrial]]:
    """Map claims, from 0, to counter-experiments; unreadable ones are noted.

    Raises `ReplyFormatError` for a reply without any, unless it is an empty list.
    """
    text = visible_code(reply)
    body = next((text[start:end] for start, end in spans(text, "experiments")[::-1]), text)
    trials: dict[int, list[ClaimTrial]] = {}
    problems = []
    objects = [value for value in json_values(body) if isinstance(value, Mapping)]
    objects += [inner for value in objects for inner in value.get("experiments", ()) if isinstance(inner, Mapping)]
    written = [value for value in objects if "claim" in value]
    for value in written:
        try:
            number = int(str(value["claim"]).strip("# "))
            if not 1 <= number <= claims:
                raise ReplyFormatError(f"there is no claim {number}")
            if value.get("task") not in tasks:
                raise ReplyFormatError(f"{clip(str(value.get('task')), 60)!r} is none of the tasks shown")
            known = {name: value[name] for name in ClaimTrial.model_fields if value.get(name) is not None}
            trials.setdefault(number - 1, []).append(ClaimTrial.model_validate(known))
        except ValidationError as error:
            problems.append(error.errors()[0]["msg"])
        except (ValueError, ReplyFormatError) as error:
            problems.append(str(error))
    if not trials and (problems or "[]" not in "".join(body.split())):
        raise ReplyFormatError(". ".join(problems[:3]) or "it holds no experiments: write a JSON list, or [] for none")
    for problem in problems:
        note(f"a counter-experiment was left out: {problem}")
    return trials


def _same(actions: Sequence[str]) -> str:
    return json.dumps([said_as(action) for action in actions])
