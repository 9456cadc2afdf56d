"""Put ten true and ten false hypotheses of a scripted model to the hybrid backend's trials.

The worlds: ALFWorld's training games, and made-up worlds (`tests/worlds`), whose rules are known exactly. The model is
a script that "proposes" all twenty in one reply; nothing tells the backend which are true. The probe's own learning is
left out, so every rule rests on these trials alone. Without trials every readable hypothesis is kept: the control.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from align_echo.agents.novices.alfworld import house_novice
from align_echo.agents.spec import NO_STEP_LIMIT
from align_echo.align.hybrid.backend import HybridBackend
from align_echo.align.hybrid.hypotheses import HYPOTHESIS, in_words
from align_echo.align.hybrid.reading import parse_hypotheses
from align_echo.align.loop import TrainingSplit as TrainingWorld
from align_echo.align.probe.backend import ProbeBackend
from align_echo.interface.contract import Interface, identity
from align_echo.models.drawing import ScriptedModel
from align_echo.rollout.batches import failed, run_tasks
from align_echo.types import Agent, Message, Misalignment, Trajectory
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import TextEnv
from tests.worlds.agents import obedient
from tests.worlds.env import WorldEnv
from tests.worlds.grammar import preparation
from tests.worlds.measure import played
from tests.worlds.worlds import World, make_world, route, task_of, train_tasks

Written = dict[str, Any]
"""One hypothesis as a model writes it."""

FAILURES, FRESH, TEST = 6, 8, 12
"""Training tasks that the agent plays, others for the trials, and test tasks of a made-up world."""


@dataclass(frozen=True)
class Setting:
    """What one world gives: failures to explain, tasks to try hypotheses in, and the twenty hypotheses. `play` counts
    the test tasks that an obedient agent wins without an interface, with its placebo, and with it."""

    name: str
    make_lab_env: Callable[[], TextEnv]
    failures: Sequence[Trajectory]
    fresh: Sequence[str]
    true: Sequence[Written]
    false: Sequence[Written]
    play: Callable[[Interface], dict[str, int]] | None = None


class Unlearned(ProbeBackend):
    """A probe that lends its laboratory and learns nothing."""

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """No misalignment."""
        return []


def measured(setting: Setting, *, trials: bool = True) -> dict[str, Any]:
    """How many of the true and of the false hypotheses were kept, with the counts behind each."""
    began = time.monotonic()
    tasks = {*(trajectory.task_id for trajectory in setting.failures), *setting.fresh}
    reply = json.dumps([*setting.true, *setting.false])
    false = {_words(written, tasks) for written in setting.false}
    lines: list[str] = []

    def answer(messages: Sequence[Message]) -> str:
        if messages[0].content.startswith("Somebody makes claims"):
            return _attack(setting.true, messages[1].content)
        return reply if len(messages) == 2 and "# Failed" in messages[1].content else "-"

    model = ScriptedModel(answer)
    env = setting.make_lab_env()
    backend = HybridBackend(
        Unlearned(lambda: env, setting.fresh),
        setting.fresh,
        analyzer_model=model,
        optimizer_model=model,
        action_format="",
        note=lines.append,
    )
    won: dict[str, int] = {}
    if trials:
        kept = backend.analyze(setting.failures, [], identity(env.contract))
        counts = {misalignment.rule: misalignment.evidence.model_dump() for misalignment in kept}
        if setting.play is not None:
            won = setting.play(backend.optimize(kept, identity(env.contract)))
    else:
        counts = {in_words(hypothesis): {} for hypothesis in parse_hypotheses(reply, tasks).hypotheses}
    env.close()
    return {
        "world": setting.name,
        "trials": trials,
        "true": len(setting.true),
        "false": len(setting.false),
        "true_kept": len([rule for rule in counts if rule not in false]),
        "false_kept": len([rule for rule in counts if rule in false]),
        "won": won,
        "test_tasks": TEST if won else 0,
        "seconds": round(time.monotonic() - began, 1),
        "evidence": counts,
        "left_out": [line for line in lines if line.startswith(("refuted", "untested"))],
    }


def _attack(written: Sequence[Written], prompt: str) -> str:
    """Counter-experiments for the claims among these hypotheses: their last action twice."""
    trials = []
    for claim in written:
        number = re.search(rf"^(\d+)\. {re.escape(claim.get('text', 'none'))}$", prompt, re.MULTILINE)
        for trial in claim.get("experiments", ()):
            if number is not None:
                trials.append({**trial, "claim": int(number[1]), "actions": [*trial["actions"], trial["actions"][-1]]})
    return json.dumps(trials)


def _words(written: Written, tasks: set[str]) -> str:
    (hypothesis,) = parse_hypotheses(json.dumps([written]), tasks).hypotheses
    return in_words(HYPOTHESIS.validate_python(hypothesis.model_dump()))


def needs(action: str, step: str) -> Written:
    """A step that an action needs first."""
    return {"kind": "needs", "action": action, "step": step}


def instead(wrong: str, right: str) -> Written:
    """A wording that is not understood."""
    return {"kind": "instead", "wrong": wrong, "right": right}


def no_effect(action: str, after: str, until: str = "") -> Written:
    """An action that changes nothing."""
    return {"kind": "no_effect", "action": action, "after": after, "until": until}


def shown_by(look: str, ways: Sequence[tuple[str, list[str], str]], *, true: bool) -> Written:
    """A claim that a look tells what was taken, or (false) what lies there untaken. `ways` are tasks with the actions
    that take a thing, the taking last, and the name of the thing."""
    experiments = []
    for task_id, actions, thing in ways:
        taken, untaken = [*actions, look], [*actions[:-1], look]
        seen, unseen = (taken, untaken) if true else (untaken, taken)
        experiments += [
            {"task": task_id, "actions": seen, "sees": thing},
            {"task": task_id, "actions": unseen, "sees_not": thing},
        ]
    text = f"`{look}` tells what you {'took' if true else 'could take'}"
    return {"kind": "claim", "text": text, "experiments": experiments}


# ---------------------------------------------------------------- ALFWorld


def alfworld(seed: int = 0) -> Setting:
    """ALFWorld's training games with the failures of the scripted novice."""
    spec = environment("alfworld")
    world = TrainingWorld(spec)
    tasks = world.tasks(1, seed, FAILURES)
    failures = _failures(world.env, house_novice(seed=seed), tasks)
    fresh = [task_id for task_id in world.tasks(0, seed) if task_id not in tasks][:FRESH]
    ways: list[tuple[str, list[str], str]] = []
    for task_id in [failures[0].task_id, *fresh]:
        actions = [action for action, _ in world.gold(task_id)]
        takes = [number for number, action in enumerate(actions) if action.startswith("take ")]
        if takes and len(ways) < 3:
            thing = actions[takes[0]].removeprefix("take ").partition(" from ")[0]
            ways.append((task_id, actions[: takes[0] + 1], thing))
    return Setting(
        name="alfworld",
        make_lab_env=lambda: spec.make_env(split=world.split, data_root=None, step_limit=NO_STEP_LIMIT),
        failures=failures,
        fresh=fresh,
        true=[
            needs("take {object} from {receptacle}", "go to {anywhere}"),
            needs("move {object} to {receptacle}", "take {object} from {anywhere}"),
            needs("take {object} from drawer {number}", "open drawer {number}"),
            needs("take {object} from cabinet {number}", "open cabinet {number}"),
            needs("open {receptacle}", "go to {anywhere}"),
            needs("close {receptacle}", "open {receptacle}"),
            no_effect("open {receptacle}", "open {receptacle}", "close {receptacle}"),
            no_effect("go to {place}", "go to {place}", "go to {other}"),
            instead("put {object} in/on {receptacle}", "move {object} to {receptacle}"),
            shown_by("inventory", ways, true=True),
        ],
        false=[
            needs("take {object} from {receptacle}", "open {receptacle}"),
            needs("take {object} from {receptacle}", "examine {receptacle}"),
            needs("go to {receptacle}", "look"),
            needs("open {receptacle}", "examine {receptacle}"),
            needs("move {object} to {receptacle}", "open {receptacle}"),
            needs("close {receptacle}", "unlock {receptacle}"),
            no_effect("open {receptacle}", "go to {receptacle}"),
            no_effect("close {receptacle}", "open {receptacle}"),
            instead("put {object} in/on {receptacle}", "take {object} from {receptacle}"),
            shown_by("inventory", ways, true=False),
        ],
    )


# ---------------------------------------------------------------- made-up worlds


RICH = {
    **{"travel": "holders", "depth": 4, "undo": True, "looks": True, "goal": "stow", "whence": True},
    **{"listed": True, "wrong_words": 1, "skipped": 1},
}
"""Features that give a world all kinds of rules."""


def made_up(seed: int, **features: Any) -> Setting:
    """A made-up world with steps to be done to a holder, of a seed below 100. Its words, its spelling of names, and how
    it refuses are drawn; that it has all kinds of rules is not."""
    world = make_world(seed, **{**RICH, **features})
    tasks = train_tasks(world, FAILURES + FRESH)
    failures = _failures(lambda: WorldEnv(world, tasks), obedient(world), tasks[:FAILURES])
    do = {role: _named(form.template, form.kinds) for role, form in world.forms.items()}
    steps = [do[preparation(number)] for number in range(world.features.preparations)]
    take_any = do["take"].replace("{holder}", "{anywhere}")
    wrong_role, wrong_form = next(iter(world.wrong.items()))
    wrong = _named(wrong_form, world.forms[wrong_role].kinds)
    kinds = sorted(world.forms[wrong_role].kinds)
    other = next(do[role] for role in do if role != wrong_role and sorted(world.forms[role].kinds) == kinds)
    ways = [_way(world, task_id) for task_id in (failures[0].task_id, *tasks[FAILURES : FAILURES + 2])]
    look = world.looks[1]
    return Setting(
        name=f"world-{seed}",
        make_lab_env=lambda: WorldEnv(world, tasks, NO_STEP_LIMIT),
        failures=failures,
        fresh=tasks[FAILURES:],
        true=[
            needs(steps[0], do["go"]),
            needs(steps[1], steps[0]),
            needs(steps[2], steps[1]),
            needs(do["take"], steps[2]),
            needs(do["take"], steps[0]),
            needs(do["put"], take_any),
            no_effect(steps[0], steps[0]),
            no_effect(do["go"], do["go"], do["go"].replace("{holder}", "{other}")),
            instead(wrong, do[wrong_role]),
            shown_by(look, ways, true=True),
        ],
        false=[
            needs(do["go"], steps[0]),
            needs(steps[0], steps[2]),
            needs(steps[1], look),
            needs(do["take"], do["close"]),
            needs(do["take"], do["put"].replace("{thing}", "{other}")),
            needs(do["put"], f"qualify {do['put']}"),
            no_effect(steps[1], steps[0]),
            no_effect(do["close"], steps[2]),
            instead(wrong, other),
            shown_by(look, ways, true=False),
        ],
        play=lambda interface: played(world, obedient(world), interface, TEST),
    )


def _named(template: str, kinds: Sequence[str]) -> str:
    """A form with the kinds of its names for their numbers."""
    return template.format(*("{" + kind + "}" for kind in kinds))


def _way(world: World, task_id: str) -> tuple[str, list[str], str]:
    task = task_of(world, task_id)
    actions = route(world, task, task.start)
    taking = next(number for number, action in enumerate(actions) if task.actions[action][0].role == "take")
    return task_id, actions[: taking + 1], task.target


def _failures(make_env: Callable[[], Any], agent: Agent, tasks: Sequence[str]) -> list[Trajectory]:
    return failed(run_tasks(make_env, agent, tasks, split="train"))
