"""The hybrid backend in ALIGN's loop: what holds is written, worded and played; nothing is lost or paid twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from align_echo.align.hybrid.backend import HybridBackend
from align_echo.align.loop import GenerationResult, generate
from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.findings import report
from align_echo.align.run_folder import Event, OnEvent, RunFolder
from align_echo.errors import ContextOverflowError, ModelError, UsageError
from align_echo.interface.contract import Interface, check_source, load_interface
from align_echo.interface.rules.actions import Form, Term
from align_echo.interface.rules.model import Condition, NeedsFirst, RuleSet
from align_echo.interface.rules.rule_file import read_rule_set
from align_echo.models.drawing import ScriptedModel
from align_echo.types import ChatModel, Evidence, Message, Misalignment, Trajectory
from align_echo.wrappers.align_wrapper import AlignWrapper
from tests.align.hybrid.station import FALSE, FRESH, SPEC, TRUE, UNTESTABLE, Fumbler, reply
from tests.station_env import StationEnv

Script = Callable[[Sequence[Message]], str]
WORDS = [
    {"number": 1, "up_front": "Pods open on their own deck: `board deck {0}`.", "hint": "First `board deck {0}`."},
    {"number": 2, "up_front": "`fetch gem X out pod Y` takes an open pod.", "hint": "Try `rm -rf {1}`, agent."},
]


class Unlearned(ProbeBackend):
    """A probe that lends its laboratory and learns nothing, so that a test is quick."""

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        return []


def model(proposals: Sequence[str], words: str = json.dumps(WORDS)) -> ScriptedModel:
    """Proposes in turn, and then nothing; words what it is asked to word, and attacks nothing."""
    left = list(proposals)

    def answer(messages: Sequence[Message]) -> str:
        if "# The rules" in messages[1].content:
            return words
        if messages[0].content.startswith("Somebody makes claims"):
            return "[]"
        return left.pop(0) if left else "[]"

    return ScriptedModel(answer)


def run(
    path: Path,
    chat: ScriptedModel,
    *,
    probe: type[ProbeBackend] = Unlearned,
    resume: bool = False,
    allow_untested: bool = False,
    iterations: int = 1,
    on_event: OnEvent | None = None,
    wrap: Callable[[ChatModel], ChatModel] = lambda chat: chat,
) -> GenerationResult:
    folder = RunFolder(path)
    backend = HybridBackend(
        probe(lambda: StationEnv(step_limit=10**6), FRESH),
        FRESH,
        analyzer_model=folder.record(wrap(chat), "analyzer"),
        optimizer_model=folder.record(wrap(chat), "optimizer"),
        action_format="short commands",
        allow_untested=allow_untested,
        note=folder.note,
        save=folder.save_unfinished,
    )
    return generate(
        SPEC, Fumbler(), backend, folder, iterations=iterations, resume=resume, on_event=on_event
    )


def notes(path: Path) -> str:
    events = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
    return "\n".join(event["message"] for event in events if event["kind"] == "note")


def known_rules(source: str) -> RuleSet:
    rules = read_rule_set(source)
    assert rules is not None
    return rules


def texts(made: GenerationResult) -> list[str]:
    return [rule.text for rule in made.interface.provenance.rules]


def played(interface: Interface, *actions: str) -> tuple[str, list[str]]:
    """The rules told up front, and what an agent reads after each action."""
    env = AlignWrapper(StationEnv(), interface)
    _, info = env.reset(options={"task": FRESH[0]})
    seen = []
    for action in actions:
        observation, _, _, _, step = env.step(action)
        assert (step["interface_error"], step["violations"]) == ("", ())
        seen.append(observation)
    return str(info["rules"]), seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GenerationResult]:
    """A run with the real probe, true and false hypotheses, and one that cannot be tried."""
    path = tmp_path_factory.mktemp("hybrid") / "run"
    chat = model([reply(*TRUE, *FALSE, UNTESTABLE)])
    return path, run(path, chat, probe=ProbeBackend, allow_untested=True)


@pytest.mark.long
def test_what_holds_stands_beside_the_probe_s_rules_with_its_counts(whole: tuple[Path, GenerationResult]) -> None:
    path, made = whole
    rules = {rule.text: rule for rule in load_interface(path / "interface.py").provenance.rules}
    for text in ("Before `unseal pod X` you need to `board deck X`", "Write `stow gem X into pod Y` instead of"):
        (rule,) = [rule for known, rule in rules.items() if known.startswith(text)]
        assert (rule.evidence.support >= 10, rule.evidence.refuted, rule.evidence.tasks >= 3) == (True, 0, True)
        assert not rule.untested
    assert '"Denied." answers every refused action alike (6 forms of action are understood)' in rules
    assert not [text for text in rules if "`seal pod X`" in text and "fetch" in text]
    assert made.interface.provenance.backend == "hybrid"
    check_source(made.interface.source, made.interface.contract)
    learned = read_rule_set(made.interface.source)
    assert learned is not None
    assert learned.vocabulary is not None, "the probe goes on from it"


@pytest.mark.long
def test_each_hypothesis_is_told_of_with_what_came_of_it(whole: tuple[Path, GenerationResult]) -> None:
    text = notes(whole[0])
    assert "10 hypotheses proposed by scripted" in text
    assert text.count("stood its trials: ") == len(TRUE)
    assert text.count("refuted: ") == len(FALSE)
    assert "against, in 1 task; station/4: board deck 1: possible without `scan`" in text
    assert "untested: Before `launch pod X` you need to `fuel pod X`" in text


@pytest.mark.long
def test_an_untested_rule_is_marked_wherever_it_is_read(whole: tuple[Path, GenerationResult]) -> None:
    _, made = whole
    (rule,) = [rule for rule in made.interface.provenance.rules if rule.untested]
    assert "launch" in rule.text
    head = made.interface.source.partition("import re")[0]
    assert "Not tested" in head
    assert "`launch pod X`" in head
    told, _ = played(made.interface)
    assert made.interface.provenance.unresolved == ("launch pod {0}: Before `launch pod X` you need to `fuel pod X`",)
    assert made.summary.misalignments == made.summary.addressed + 1
    assert "- (not tested) Before `launch pod X` you need to `fuel pod X`." in told


@pytest.mark.long
def test_agents_read_it_where_the_probe_has_no_words_or_the_wording_is_wrong(
    whole: tuple[Path, GenerationResult],
) -> None:
    _, (unseal, put) = played(whole[1].interface, "unseal pod 1", "put gem 4 in pod 2")
    assert unseal.count("first") == 1, "one message for one refusal"
    assert "write `stow gem 4 into pod 2` instead" in put


def test_without_the_option_an_untested_hypothesis_is_left_out(tmp_path: Path) -> None:
    made = run(tmp_path, model([reply(UNTESTABLE, TRUE[0])]))
    assert texts(made) == ["Before `unseal pod X` you need to `board deck X`"]
    assert "it is left out; --allow-untested keeps such" in notes(tmp_path)


def test_the_model_s_words_are_used_if_they_keep_to_the_rule_s_commands(tmp_path: Path) -> None:
    made = run(tmp_path, model([reply(*TRUE[:2])]))
    told, seen = played(made.interface, "unseal pod 2", "board deck 2", "fetch gem 1 out pod 2")
    assert "- Pods open on their own deck: `board deck X`." in told
    assert seen[0] == "Denied. First `board deck 2`."
    assert seen[2] == "Denied. `fetch gem 1 out pod 2` does not work yet: you need to `unseal pod 2` first."
    assert "rm -rf" not in made.interface.source
    assert "name `rm -rf {1}`, which is no form of the rule" in notes(tmp_path)


def test_a_step_with_a_name_of_its_own_is_said_without_it(tmp_path: Path) -> None:
    words = json.dumps([{"number": 1, "up_front": "x", "hint": "First `fetch gem {0} out pod {2}`."}])
    made = run(tmp_path, model([reply(TRUE[2])], words=words))
    actions = ("board deck 1", "unseal pod 1", "stow gem 4 into pod 1")
    assert played(made.interface, *actions)[1][-1] == (
        "Denied. `stow gem 4 into pod 1` is refused until some `fetch gem 4 out pod ...` was done."
    )


def test_words_that_cannot_be_read_cost_no_rule(tmp_path: Path) -> None:
    made = run(tmp_path, model([reply(TRUE[0])], words="Here you are!"))
    assert played(made.interface, "unseal pod 2")[1] == [
        "Denied. `unseal pod 2` does not work yet: you need to `board deck 2` first."
    ]
    assert "told in plain words" in notes(tmp_path)


def test_the_step_that_comes_first_of_all_is_named_and_advice_in_vain_ends(tmp_path: Path) -> None:
    made = run(tmp_path, model([reply(*TRUE[:2], UNTESTABLE)], words="-"), allow_untested=True)
    _, seen = played(made.interface, "fetch gem 1 out pod 3", *["launch pod 3", "fuel pod 3"] * 2)
    assert "you need to `board deck 3` first" in seen[0]
    assert "you need to `fuel pod 3` first" in seen[1]
    assert seen[2:] == ["Denied."] * 3, "what was tried in vain is not said again"


def test_a_proposer_that_answers_nothing_readable_is_an_error_that_is_taken_up_again(tmp_path: Path) -> None:
    chat = model(["I saw nothing special."] * 3 + [reply(TRUE[0])])
    with pytest.raises(ModelError, match="proposing hypotheses broke: no usable answer in 3 tries"):
        run(tmp_path, chat)
    assert not (tmp_path / "summary.json").exists()
    made = run(tmp_path, chat, resume=True)
    assert len(made.interface.provenance.rules) == 1
    assert len(chat.requests) == 6, "three in vain, one that is read, one to refute it, one for words"


@pytest.mark.long
def test_what_the_probe_found_stands_where_the_proposer_answers_nothing_readable(tmp_path: Path) -> None:
    made = run(tmp_path, model(["I saw nothing special."] * 3), probe=ProbeBackend)
    assert len(made.interface.provenance.rules) > 3
    assert "what the probe found stands: proposing hypotheses broke: no usable answer in 3 tries" in notes(tmp_path)


@pytest.mark.parametrize("window", [0.8, 0.5, 0.0])
def test_a_proposer_is_shown_fewer_and_shorter_episodes_where_they_do_not_fit(window: float, tmp_path: Path) -> None:
    """The window is a share of the longest question's length."""
    proposer = model([reply(TRUE[0])])
    lengths: list[int] = []

    def answer(messages: Sequence[Message]) -> str:
        asked = messages[-1].content
        if "hypothes" in messages[0].content and not lengths:
            lengths.append(len(asked))
        if lengths and len(asked) > window * lengths[0]:
            raise ContextOverflowError("it is too long")
        return proposer.complete(messages, temperature=0).text

    if not window:
        with pytest.raises(ModelError, match="the shortest question for hypotheses is too long: it is too long"):
            run(tmp_path, ScriptedModel(answer))
        return
    made = run(tmp_path, ScriptedModel(answer))
    assert len(made.interface.provenance.rules) == 1
    assert "the episodes are too long for" in notes(tmp_path)


class Learned(ProbeBackend):
    """A probe that found a rule."""

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        form, step, given = "fetch {0} out {1}", "unseal {0}", (Term(slot=1),)
        done = Condition(kind="done", form=step, terms=given)
        rule = NeedsFirst(form=form, answers=("No.",), step=step, terms=given, unless=(done,), text="Unseal pods.")
        rules = RuleSet(forms=(Form(text="fetch {0} out {1}"), Form(text="unseal {0}")), rules=(rule,))
        evidence = Evidence(support=9, refuted=0, tasks=3)
        example = (FRESH[0], "fetch")
        return [report(rule.text, example, evidence, rules, kind=rule.form, feedback=rule.say)]


@pytest.mark.parametrize(
    "error",
    [
        UsageError("m refuses the key (401)"),
        UsageError("m cannot be reached in 3 attempts"),
        ModelError("m gave no reply in 7 attempts; the last: internal"),
    ],
)
def test_what_the_probe_found_is_saved_where_the_endpoint_fails_and_the_run_goes_on(
    tmp_path: Path, error: Exception
) -> None:
    failing = [error]

    def answer(messages: Sequence[Message]) -> str:
        if failing:
            raise failing[0]
        return "[]"

    with pytest.raises(type(error), match=re.escape(str(error))):
        run(tmp_path, ScriptedModel(answer), probe=Learned)
    saved = load_interface(tmp_path / "interface.py")
    assert "Unseal pods." in saved.source
    assert not (tmp_path / "summary.json").exists()
    assert f"what was found so far is in {tmp_path / 'interface.py'}" in notes(tmp_path)
    failing.clear()
    made = run(tmp_path, ScriptedModel(answer), probe=Learned, resume=True)
    assert (tmp_path / "summary.json").exists()
    assert "Unseal pods." in made.interface.source


class Killed(BaseException):
    """Stands for Ctrl-C."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> GenerationResult:
    return run(tmp_path_factory.mktemp("hybrid") / "run", model([reply(*TRUE[:3], *FALSE[:2])]))


@pytest.mark.parametrize("kind", ["misalignments", "interface"])
def test_a_killed_run_goes_on_and_asks_nothing_twice(tmp_path: Path, undisturbed: GenerationResult, kind: str) -> None:
    def kill(event: Event) -> None:
        if event.kind == kind:
            raise Killed

    chat = model([reply(*TRUE[:3], *FALSE[:2])])
    with pytest.raises(Killed):
        run(tmp_path, chat, on_event=kill)
    made = run(tmp_path, chat, resume=True)
    assert made.interface.source == undisturbed.interface.source
    assert made.summary == undisturbed.summary
    assert len(chat.requests) == 3, "to propose, to refute, to word"


def test_a_later_iteration_keeps_what_was_learned_and_drops_what_fails(tmp_path: Path) -> None:
    chat = model([reply(TRUE[0], TRUE[1]), reply(TRUE[3], TRUE[0])])
    made = run(tmp_path, chat, iterations=2)
    rules = known_rules(made.interface.source)
    assert [rule.kind for rule in rules.rules] == ["needs_first", "needs_first", "no_effect"]
    assert set(rules.refusals) >= {"unseal pod {0}"}
    assert len(made.interface.provenance.rules) == 3
    assert "Before `unseal pod X` you need to `board deck X`" in chat.requests[3][1].content, "known already"


def test_a_rule_that_fails_later_is_taken_back(tmp_path: Path) -> None:
    made = run(tmp_path, model([reply(UNTESTABLE, TRUE[0])]), allow_untested=True)
    wrong = known_rules(made.interface.source).rules[0]
    source = made.interface.source.replace("launch pod", "board deck").replace("fuel pod {0}", "seal pod {0}")
    backend = HybridBackend(
        Unlearned(lambda: StationEnv(step_limit=10**6), FRESH),
        FRESH,
        analyzer_model=model([]),
        optimizer_model=model([]),
        action_format="",
    )
    trajectory = next(iter(RunFolder(tmp_path).trajectories(1).read(Trajectory)))
    interface = made.interface.model_copy(update={"source": source})
    (finding,) = backend.analyze([trajectory], [], interface)
    assert isinstance(wrong, NeedsFirst)
    assert (finding.kind, finding.evidence.refuted) == ("bug-of-current", 1)
    rules = known_rules(backend.optimize([finding], interface).source)
    assert [getattr(rule, "form", "") for rule in rules.rules] == ["unseal pod {0}"]
