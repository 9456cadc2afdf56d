"""The audit of messages: it finds what is false, on a world without an engine and on the shipped interface."""

from __future__ import annotations

import pytest

import align_echo
from align_echo.evaluate.audit.audit import Auditor, read_claims
from align_echo.evaluate.audit.report import UNTESTED, AuditReport, AuditRow, SpeakerAudit
from align_echo.evaluate.audit.rules import read_told
from align_echo.interface.contract import Interface, Provenance, identity
from align_echo.interface.rules.model import load_rules
from align_echo.interface.rules.rule_file import source
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.text_env import TextEnv
from tests import annex_env, quay_env, ticket_env
from tests.annex_env import REFUSED, AnnexEnv
from tests.limits import cpu_seconds
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
        ("'You should think.'", "do"),
        ("'You have to go to attic before that.'", "do"),
        ("'Try \"take mug 9\" instead.'", "write"),
        ("'You are already there.'", "already"),
        ("'There is no ' + agent_action.split(' ', 1)[-1].replace('to ', '') + ' here.'", "absent"),
        ("'`' + agent_action + '` does not work yet: you need to `look` first.'", "circle"),
    ],
)
def test_what_is_false_is_found(message: str, kind: str):
    assert audited(message).findings.false[kind] > 0


def test_what_cannot_be_read_cannot_be_tried():
    findings = audited("'That is how things are now.'").findings
    assert findings.claims["unread"] == findings.untried["unread"] > 10
    assert findings.wrong == 0


def test_any_text_is_read_sentence_by_sentence():
    message = 'The mug 1 is not here; go to desk 1 first. It is dark. Only these forms work: "take {thing}", "look".'
    assert [tuple(claim) for claim in read_claims(message, "take mug 1")] == [
        ("absent", "mug 1", ""),
        ("do", "take mug 1", "go to desk 1"),
        ("unread", "It is dark.", ""),
        ("only", "`take X`, `look`", ""),
    ]


def test_words_for_after_a_step_are_not_judged_before_it():
    claims = read_claims("You need to `claim R5` first. Then: Write `close R5` instead.", "close 5")
    assert [(claim.kind, claim.says) for claim in claims] == [("do", "claim R5"), ("then", "close R5")]


def test_rules_told_up_front_are_read_with_their_forms():
    call = '{"tool": "send", "what": "X"}'
    told = read_told(
        f"Learned:\n- Before `{call}` you need to `weigh X`\n- (not tested) Write `put X` instead of `lay Y`.\n"
        "- `open X` changes nothing after `open X`, until `shut X`\n- Before `go X` you may need to `open X`\n"
        "- Only these forms are understood: `go X`\n- All is well"
    )
    assert [(rule.kind, *rule[2:]) for rule in told] == [
        ("needs", '{"tool": "send", "what": "{0}"}', "weigh {0}", ""),
        ("instead", "lay {1}", "put {0}", ""),
        ("nothing", "open {0}", "open {0}", "shut {0}"),
        ("may", "go {0}", "open {0}", ""),
        ("forms", "", "", ""),
        ("unread", "", "", ""),
    ]


def test_what_is_true_is_let_pass():
    findings = audited("'Nothing called `attic` was seen so far.'").findings
    assert findings.messages > 10
    assert findings.wrong == 0, findings.examples


def test_the_adversary_says_what_is_refused_in_many_ways():
    findings = audited("''").findings
    assert findings.messages == 0
    assert findings.refusals > 0.5 * findings.utterances


class Typographic(RoomEnv):
    """A room whose engine writes characters that agents are shown plain."""

    def _carry_out(self, action: str) -> str:
        return f"{super()._carry_out(action)} \u201cHm,\u201d says nobody."


def test_what_the_wrapper_makes_plain_is_no_message():
    auditor = Auditor(Typographic(step_limit=10**6), interface("''"), lambda text: text.startswith("Nothing happens."))
    auditor.play(TASK_IDS[0], turns=12)
    assert auditor.findings.utterances > 5
    assert auditor.findings.messages == 0, auditor.findings.examples


SCORED = '''
def InferRules(init_obs, task):
    return ""


def WrapStep(env, init_obs, task, agent_action, logger):
    obs, _, done, info = env.step(agent_action)
    if obs == "Eh?":
        obs = obs + " " + {message}
    return obs, done, info["score"]
'''


def offered_audit(message: str) -> Auditor:
    """Like `audited`, on a world that lists no allowed actions but offers forms and names."""
    said = interface("").model_copy(
        update={"source": SCORED.replace("{message}", message), "contract": annex_env.CONTRACT}
    )
    auditor = Auditor(AnnexEnv(step_limit=10**6), said, lambda text: text == REFUSED)
    for task_id in annex_env.TASK_IDS[:4]:
        auditor.play(task_id, turns=8)
    return auditor


OFFERED = ", ".join(f"`{form.replace('{0}', 'X').replace('{1}', 'Y')}`" for form in annex_env.TEMPLATES)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("'The environment knows these forms: `beam X`, `borrow X`.'", "forms"),
        ("'Write `grasp X` or `lodge X`.'", "forms"),
        ("'The environment knows only these forms: `beam X`, `peer`.'", "only"),
        ("'Words around a name are not understood: here \"way to the\" must stand alone.'", "alone"),
    ],
)
def test_what_no_engine_offers_is_found(message: str, kind: str):
    findings = offered_audit(message).findings
    assert findings.false[kind] == findings.claims[kind] - findings.untried[kind] > 10


@pytest.mark.parametrize(
    ("message", "kind", "tried"),
    [
        (f"'The environment knows these forms: {OFFERED}.'", "forms", True),
        (f"'The environment knows only these forms: {OFFERED}.'", "only", True),
        ("'Write `grasp X` or `lodge X on Y`.'", "forms", True),
        ("'Some tasks understand `borrow X`, not all.'", "some", False),
    ],
)
def test_forms_that_an_engine_offers_are_let_pass(message: str, kind: str, tried: bool):
    findings = offered_audit(message).findings
    assert findings.wrong == 0, findings.examples
    assert findings.claims[kind] > 10
    assert findings.tried == (findings.claims[kind] if tried else 0)


def shipped(name: str, games: int, turns: int) -> Auditor:
    spec = environment(name)
    env = align_echo.make(name, split=spec.test_split, step_limit=10**6).unwrapped
    auditor = Auditor(env, align_echo.load_interface(f"{name}/probe"), spec.is_invalid)  # type: ignore[arg-type]
    for task_id in align_echo.tasks(name, split=spec.test_split)[:: 134 // games][:games]:
        auditor.play(task_id, turns=turns)
    env.close()
    return auditor


@pytest.mark.long
def test_the_shipped_interface_says_nothing_false_on_unseen_games():
    findings = shipped("alfworld", games=8, turns=20).findings
    assert findings.messages > 200
    assert {"do", "write", "already", "unseen"} <= set(findings.claims)
    assert findings.wrong == 0, findings.examples
    assert findings.told["Write `move X to Y` instead of `put X in/on Y`"][0] > 0, "what is told of words is tried"


@pytest.mark.slow
def test_the_shipped_interface_of_scienceworld_says_nothing_false_on_unseen_games():
    findings = shipped("scienceworld", games=12, turns=8).findings
    assert {"do", "write", "unseen", "forms"} <= set(findings.claims)
    assert findings.wrong == 0, findings.examples


@pytest.mark.slow
def test_the_shipped_interface_says_nothing_false_on_all_unseen_games():
    findings = shipped("alfworld", games=134, turns=30).findings
    assert findings.messages > 1000
    assert findings.wrong == 0, findings.examples


@pytest.mark.parametrize(
    "part",
    [
        *("a ", "“a", "‘it", "Write `", "Write `a`, ", " [", " <a", "there is no a ", "e.g. ", "the a is not ", "\n"),
        *("`a` or ", "`a` is not here; it was last seen at ", "`a` does not work yet: "),
        'Words around a name are not understood: here "',
    ],
)
def test_a_message_is_read_in_linear_time(part):
    with cpu_seconds(5):
        read_claims("x" + part * (200_000 // len(part)))


# ---------------------------------------------------------------- rules as data, in worlds that declare no refusals


def needs(step: str) -> Interface:
    """An interface of one rule: a parcel is posted after `step`."""
    own = ({"slot": 0},)
    rules = load_rules(
        {
            "forms": [{"text": f"{verb} {{0}}"} for verb in ("weigh", "stamp", "post")],
            "refusals": {"post {0}": ["No way.", "{same}", "Not before it was weighed."]},
            "values": {"post {0}": [quay_env.NAMES], "weigh {0}": [quay_env.NAMES], "stamp {0}": [quay_env.NAMES]},
            "rules": [
                {
                    "kind": "needs_first",
                    "form": "post {0}",
                    "answers": ["No way.", "{same}", "Not before it was weighed."],
                    "step": f"{step} {{0}}",
                    "terms": own,
                    "unless": [{"kind": "done", "form": f"{step} {{0}}", "terms": own}],
                    "text": f"Before `post X` you need to `{step} X`",
                }
            ],
        }
    )
    contract = quay(quay_env.Quay).contract
    return identity(contract).model_copy(update={"source": source(rules, contract)})


def quay(world: type[quay_env.Quay]) -> TextEnv:
    return quay_env.environment(world, 10**6).spec("quay").make_env(split="train", data_root=None, step_limit=10**6)


@pytest.mark.long
@pytest.mark.parametrize("world", [quay_env.Quay, quay_env.Counting, quay_env.Repeating, quay_env.Blaming])
def test_rules_as_data_are_judged_by_their_effects_where_no_refusal_is_declared(world: type[quay_env.Quay]):
    for step, holds in (("weigh", True), ("stamp", False)):
        auditor = Auditor(quay(world), needs(step), None)
        for task in range(6):
            auditor.play(str(task), turns=12)
        ((right, wrong),) = auditor.findings.told.values()
        assert (right > 0, wrong > 0) == (holds, not holds), (right, wrong, auditor.findings.examples)
        assert bool(auditor.findings.false["told-needs"]) is not holds
        assert auditor.findings.obeyed > 0 or not holds


def test_a_step_is_told_in_the_letters_in_which_the_environment_writes_its_names():
    auditor = Auditor(quay(quay_env.Counting), needs("weigh"), None)
    for task in range(12):
        auditor.play(str(task), turns=12)
    assert auditor.findings.false["do"] == 0, auditor.findings.examples


# ---------------------------------------------------------------- signs that pages leave out


def lettered(sign: str) -> Interface:
    """An interface of one rule: the id of a ticket that is opened has this sign."""
    kind = sign.lower().replace("{}", "0")
    rules = load_rules(
        {
            "forms": [{"text": text} for text in ("open {0}", "tag {0} {1}", "close {0}")],
            "refusals": {"open {0}": ["There is no ticket {0}."]},
            "kinds": {"open {0}": [[kind]]},
            "rules": [
                {
                    "kind": "say_instead",
                    "form": "open {0}",
                    "answers": ["There is no ticket {0}."],
                    "edit": {"kind": "sign", "slot": 0, "detail": sign},
                    "text": "In `open X`, X has a letter",
                }
            ],
        }
    )
    contract = desk().contract
    return identity(contract).model_copy(update={"source": source(rules, contract)})


def desk() -> TextEnv:
    world = align_echo.TextEnvironment(
        ticket_env.Lettered, action_format=ticket_env.Lettered.format, is_invalid=is_refused
    )
    return world.spec("desk").make_env(split="train", data_root=None, step_limit=10**6)


def is_refused(text: str) -> bool:
    return text in ("Not permitted.", "That did not work.") or text.startswith("There is no ticket")


@pytest.mark.parametrize(("sign", "holds"), [("T{}", True), ("Q{}", False)])
def test_the_adversary_says_names_as_pages_show_them_and_with_the_signs_of_rules(sign: str, holds: bool):
    auditor = Auditor(desk(), lettered(sign), is_refused)
    for task in range(6):
        auditor.play(str(task), turns=8)
    findings = auditor.findings
    assert findings.claims["write"] > findings.untried["write"] == 0
    assert (findings.false["write"] > 0) is not holds, findings.examples
    assert any(action.startswith(f"open {sign[0]}") for action, _ in auditor._texts)


def test_orders_that_were_obeyed_are_counted_where_nothing_was_tested():
    total = AuditRow(claim="all", right=0, wrong=0, cannot_tell=7, share=None)
    speaker = SpeakerAudit(
        speaker="adversary",
        games=1,
        utterances=40,
        refusals=0,
        messages=0,
        spoken=0,
        orders=7,
        obeyed=3,
        rows=(),
        total=total,
        chains={},
        circles=0,
        broken=0,
        examples=(),
    )
    report = AuditReport(
        environment="desk", split="test", interface="said", seed=0, turns=8, per_state=3, speakers=(speaker,)
    )
    assert report.status == UNTESTED
    assert "3 of 7 orders obeyed" in report.problem
