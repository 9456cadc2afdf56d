"""What a model claims is attacked: half-true claims are narrowed or dropped, and few trials make no rule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from align_echo.align.hybrid.backend import HybridBackend
from align_echo.align.probe.backend import ProbeBackend
from align_echo.interface.contract import Interface, identity
from align_echo.models.drawing import ScriptedModel
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentReply, AgentView, Message, Misalignment, Trajectory
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import TextEnv
from tests import desk_env

Written = dict[str, Any]
HALF = "After `{seal}` nothing else can be done with the parcel."
NARROW = "After `{seal}`, `{weigh}` is refused."


class Unlearned(ProbeBackend):
    """A probe that learns nothing."""

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        return []


@dataclass
class Kind:
    """A desk's name and how a tool is written there."""

    name: str
    say: Callable[[str], str]

    def claim(self, text: str, action: str = "") -> Written:
        """A claim with the experiments of its author, which try one half of it."""
        seal, weigh = self.say("seal"), self.say("weigh")
        experiments = [
            {"task": task, "actions": actions, key: "too late"}
            for task in ("0", "1")
            for actions, key in (([seal, weigh], "sees"), ([weigh], "sees_not"))
        ]
        words = text.format(seal=seal, weigh=weigh)
        return {"kind": "claim", "text": words, "action": action and self.say(action), "experiments": experiments}

    def trials(self, *tools: str, sees: str, tasks: Sequence[str] = ("1", "2", "3"), **key: str) -> list[Written]:
        """Counter-experiments in these tasks."""
        actions = [self.say(tool) for tool in tools]
        return [{"claim": 1, "task": task, "actions": actions, key.get("key", "sees"): sees} for task in tasks]


KINDS = [Kind("PLAIN", str), Kind("CALLED", desk_env.call)]


class Sealer:
    """Seals first, and can then only fail."""

    name = "sealer"

    def __init__(self, say: Callable[[str], str]) -> None:
        self._way = [say(tool) for tool in ("seal", "weigh", "send", "weigh", "send", "weigh")]

    def act(self, view: AgentView) -> AgentReply:
        action = self._way[len(view.turns)]
        return AgentReply(text=action, action=action)


@dataclass
class Made:
    """What came of a claim."""

    interface: Interface
    notes: str
    model: ScriptedModel
    env: TextEnv

    def texts(self, confirmed: bool = True) -> list[str]:
        return [rule.text for rule in self.interface.provenance.rules if rule.untested is not confirmed]

    def played(self, *actions: str) -> tuple[str, list[str]]:
        """The rules told up front, and what an agent reads."""
        env = AlignWrapper(self.env, self.interface)
        _, info = env.reset(options={"task": "5"})
        steps = [env.step(action) for action in actions]
        assert not [step[4] for step in steps if step[4]["interface_error"]]
        return str(info["rules"]), [step[0] for step in steps]


def made(kind: Kind, claim: Written, attacks: Sequence[object], narrower: object = (), fresh: int = 6) -> Made:
    """Let a scripted model propose a claim, attack it in turn, and narrow it."""
    left = [json.dumps(attack) for attack in attacks]

    def answer(messages: Sequence[Message]) -> str:
        if messages[0].content.startswith("Somebody makes claims"):
            return left.pop(0)
        if "# The rules" in messages[1].content:
            return "-"
        return json.dumps(list(narrower) if len(messages) > 2 else [claim])  # type: ignore[call-overload]

    spec = environment(f"tests.desk_env:{kind.name}")
    model, notes = ScriptedModel(answer), list[str]()
    tasks = [str(number) for number in range(fresh)]
    failed = run_tasks(lambda: spec.make("train"), Sealer(kind.say), ["0"], split="train")
    env = spec.make_env(split="train", data_root=None, step_limit=None)
    backend = HybridBackend(
        Unlearned(lambda: spec.make_env(split="train", data_root=None, step_limit=10**6), tasks),
        tasks,
        analyzer_model=model,
        optimizer_model=model,
        action_format=spec.action_format,
        is_invalid=spec.is_invalid,
        note=notes.append,
    )
    plain = identity(spec.contract)
    found = backend.analyze(failed, [], plain)
    return Made(backend.optimize(found, plain) if found else plain, "\n".join(notes), model, env)


each_kind = pytest.mark.parametrize("kind", KINDS, ids=["plain", "json"])


@each_kind
def test_a_claim_of_which_half_is_true_is_narrowed_to_that_half(kind: Kind) -> None:
    attacks = [
        kind.trials("seal", "label", sees="refused"),
        [*kind.trials("label", "seal", "weigh", sees="too late"), *kind.trials("label", "weigh", sees="pounds")],
    ]
    result = made(kind, kind.claim(HALF), attacks, [kind.claim(NARROW)])
    seal, weigh, label = (kind.say(tool) for tool in ("seal", "weigh", "label"))
    (rule,) = result.texts()
    assert rule == f"After `{seal}`, `{weigh}` is refused"
    assert f"1: {seal} | {label}: 'refused' is not seen in 'Labelled.'" in result.notes
    assert "1 refuted by counter-experiments; 1 narrower ones proposed" in result.notes
    assert f"confirmed: {rule} (10 trials for it and 0 against, in 4 tasks; counter-experiments in 3 tasks)" in (
        result.notes
    )


@each_kind
def test_a_claim_that_nobody_attacked_is_told_as_what_was_played(kind: Kind) -> None:
    result = made(kind, kind.claim(HALF), [[]])
    said = f'In 2 tasks `{kind.say("weigh")}` after `{kind.say("seal")}` was answered with "too late"'
    assert result.texts() == []
    assert result.texts(confirmed=False) == [said]
    told, _ = result.played()
    assert f"- {said}." in told
    assert "nothing else" not in told
    assert len(result.interface.provenance.unresolved) == 1
    assert "not confirmed: After" in result.notes


@each_kind
def test_repeating_what_the_author_played_confirms_nothing(kind: Kind) -> None:
    result = made(kind, kind.claim(HALF), [kind.trials("seal", "weigh", sees="too late", tasks=("2", "3", "4"))])
    assert result.texts() == []
    (said,) = result.texts(confirmed=False)
    assert said.startswith("In 5 tasks ")


def test_a_text_that_is_seen_whatever_was_done_confirms_nothing() -> None:
    kind = KINDS[0]
    result = made(kind, kind.claim(HALF), [kind.trials("label", "label", sees="unheard-of", key="sees_not")])
    assert result.texts() == []


def test_a_refuted_claim_that_its_author_does_not_narrow_is_dropped() -> None:
    kind = KINDS[0]
    result = made(kind, kind.claim(HALF), [kind.trials("seal", "label", sees="refused")])
    assert result.interface.provenance.rules == ()
    assert "refuted: After `seal` nothing else can be done" in result.notes


def test_fewer_than_three_tasks_are_said() -> None:
    kind = KINDS[0]
    trials = kind.trials("label", "seal", "weigh", sees="too late", tasks=("0", "1"))
    result = made(kind, kind.claim(NARROW), [trials], fresh=2)
    assert "no claim can be tested in 3 tasks: the run has 2 tasks" in result.notes
    assert result.texts() == []


@each_kind
@pytest.mark.parametrize("action", ["", "weigh"])
def test_a_confirmed_claim_speaks_when_its_answer_comes(kind: Kind, action: str) -> None:
    trials = [*kind.trials("label", "seal", "weigh", sees="too late"), *kind.trials("label", "weigh", sees="pounds")]
    result = made(kind, kind.claim(NARROW, action), [trials])
    seal, weigh = kind.say("seal"), kind.say("weigh")
    _, seen = result.played(kind.say("label"), seal, weigh)
    assert seen == ["Labelled.", "Sealed.", f"Refused: too late. After `{seal}`, `{weigh}` is refused."]


def without_exceptions(text: str) -> str:
    """A rule's text without the actions after which it is silent."""
    return re.sub(r"(?:, (?:but not|nor|only) after `[^`]*`)*$", "", text)


@each_kind
def test_an_order_of_steps_becomes_feedback(kind: Kind) -> None:
    rule = {"kind": "needs", "action": kind.say("send"), "step": kind.say("weigh")}
    result = made(kind, rule, [[]])
    send, weigh = kind.say("send"), kind.say("weigh")
    spaced = send.replace(": ", ":  ")
    assert [*map(without_exceptions, result.texts())] == [f"Before `{send}` you need to `{weigh}`"]
    _, seen = result.played(spaced, weigh)
    assert seen[0] == f"Refused: no weight. `{send}` does not work yet: you need to `{weigh}` first."
    assert result.played(kind.say("seal"), send)[1][1] == "Refused: no weight.", "then it can no longer be weighed"


def test_a_needed_step_is_refuted_by_a_way_around_it() -> None:
    kind = Kind("OPEN", str)
    rule = {"kind": "needs", "action": "send", "step": "weigh"}
    way = kind.trials("stamp", "send", sees="refused")
    assert [*map(without_exceptions, made(kind, rule, [[]]).texts())] == ["Before `send` you need to `weigh`"]
    result = made(kind, rule, [way])
    assert result.texts() == []
    assert "1: send: possible without `weigh`, after stamp" in result.notes
