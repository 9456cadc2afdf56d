"""The audit of messages: it finds what is false, on a world without an engine and on the shipped interface."""

from __future__ import annotations

import pytest

import align_echo
from align_echo.align.audit.audit import Auditor
from align_echo.align.audit.claims import read_claims
from align_echo.interface import Interface, Provenance
from align_echo.wrappers.catalogue import environment
from tests.room_env import CONTRACT, TASK_IDS, RoomEnv

SHELL = '''
def InferRules(init_obs, task):
    return ""


def WrapStep(env, init_obs, task, agent_action, logger):
    obs, reward, done, info = env.step([agent_action])
    said = obs[0]
    if said == "Nothing happens.":
        said = said + " " + {message}
    return said, info["won"][0], done[0]
'''


def interface(message: str) -> Interface:
    """An interface that adds one message to every refusal; `message` is an expression over `agent_action`."""
    source = SHELL.replace("{message}", message)
    return Interface(
        name="said", source=source, contract=CONTRACT, provenance=Provenance(environment="room", backend="hand")
    )


def audited(message: str) -> Auditor:
    auditor = Auditor(RoomEnv(step_limit=10**6), interface(message), lambda text: text == "Nothing happens.")
    for task_id in TASK_IDS:
        auditor.play(task_id, turns=12)
    return auditor


def test_every_sentence_of_a_message_is_read():
    message = (
        "`a 1` does not work yet: you need to `b 1` first. Then write `a 1`: `A 1` is not understood. "
        "Nothing called `c 2` was seen so far, only c 1, c 3. More."
    )
    assert [tuple(claim) for claim in read_claims(message)] == [
        ("do", "a 1", "b 1"),
        ("then", "A 1", "a 1"),
        ("unseen", "c 2", "c 1, c 3"),
        ("unread", "More.", ""),
    ]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("'`' + agent_action + '` does not work yet: you need to `go to attic` first.'", "do"),
        ("'`' + agent_action + '` is not understood; write `take mug 9` instead.'", "write"),
        ("'`' + agent_action + '` would change nothing: that is already so.'", "already"),
        ("'Nothing called `kitchen` was seen so far.'", "unseen"),
        ("'Nothing called `attic` was seen so far, only loft 1.'", "unseen"),
        ("'`mug 1` was last seen after `go to attic`.'", "after"),
        ("'Words around a name are not understood: here \"attic\" must stand alone.'", "alone"),
        ("'You should think again.'", "unread"),
        ("'`' + agent_action + '` does not work yet: you need to `look` first.'", "circle"),
    ],
)
def test_what_is_false_is_found(message: str, kind: str):
    assert audited(message).findings.false[kind] > 0


def test_what_is_true_is_let_pass():
    found = audited("'Nothing called `attic` was seen so far.'").findings
    assert found.messages > 10
    assert found.wrong == 0, found.examples


def test_the_adversary_says_what_is_refused_in_many_ways():
    found = audited("''").findings
    assert found.messages == 0
    assert found.refusals > 0.5 * found.utterances


class Typographic(RoomEnv):
    """A room whose engine writes characters that agents are shown plain."""

    def _carry_out(self, action: str) -> str:
        return f"{super()._carry_out(action)} \u201cHm,\u201d says nobody."


def test_what_the_wrapper_makes_plain_is_no_message():
    auditor = Auditor(Typographic(step_limit=10**6), interface("''"), lambda text: text.startswith("Nothing happens."))
    auditor.play(TASK_IDS[0], turns=12)
    assert auditor.findings.utterances > 5
    assert auditor.findings.messages == 0, auditor.findings.examples


def shipped(name: str, games: int, turns: int) -> Auditor:
    spec = environment(name)
    env = align_echo.make(name, split=spec.test_split, step_limit=10**6).unwrapped
    auditor = Auditor(env, align_echo.load_interface(f"{name}/probe"), spec.is_invalid)  # type: ignore[arg-type]
    for task_id in align_echo.tasks(name, split=spec.test_split)[:: 134 // games][:games]:
        auditor.play(task_id, turns=turns)
    env.close()
    return auditor


def test_the_shipped_interface_says_nothing_false_on_unseen_games():
    found = shipped("alfworld", games=8, turns=20).findings
    assert found.messages > 200
    assert {"do", "write", "already", "unseen"} <= set(found.claims)
    assert found.wrong == 0, found.examples


@pytest.mark.slow
def test_the_shipped_interface_of_scienceworld_says_nothing_false_on_unseen_games():
    found = shipped("scienceworld", games=6, turns=8).findings
    assert {"do", "write", "unseen", "forms"} <= set(found.claims)
    assert found.wrong == 0, found.examples


@pytest.mark.slow
def test_the_shipped_interface_says_nothing_false_on_all_unseen_games():
    found = shipped("alfworld", games=134, turns=30).findings
    assert found.messages > 1000
    assert found.wrong == 0, found.examples
