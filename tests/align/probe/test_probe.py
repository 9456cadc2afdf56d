"""The whole probe on a world it has never heard of: it finds the rules by experiment, and they hold on fresh tasks."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterable
from itertools import pairwise

import pytest

from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.cases import ActionVocabulary, walk
from align_echo.align.probe.findings import rules_in
from align_echo.align.probe.lab import Lab
from align_echo.errors import UsageError
from align_echo.interface.contract import Interface, check_source, identity
from align_echo.interface.rules.decisions import DecisionLists
from align_echo.interface.rules.model import AllowedWhere, AlreadySo, NeedsStep, Rule, RuleSet, SituationRule
from align_echo.interface.rules.rule_file import source
from align_echo.rollout.batches import run_tasks
from align_echo.types import AgentReply, AgentView, Trajectory
from tests.station_env import CONTRACT, TASK_IDS, StationEnv
from tests.worlds.measure import lists_of


class Fumbler:
    """Says plausible things at random, most of them out of order; half its stowing is worded wrongly."""

    name = "fumbler"

    def act(self, view: AgentView) -> AgentReply:
        rng = random.Random(f"{view.task_id}/{len(view.turns)}")
        gem, pod = rng.randint(1, 4), rng.randint(1, 5)
        action = rng.choice(
            [
                f"board deck {pod}",
                f"unseal pod {pod}",
                f"fetch gem {gem} out pod {pod}",
                f"stow gem {gem} into pod {pod}",
                f"put gem {gem} in pod {pod}",
                f"seal pod {pod}",
            ]
        )
        return AgentReply(text=action, action=action)


@pytest.fixture(scope="module")
def learned():
    episodes = run_tasks(StationEnv, Fumbler(), TASK_IDS[:6], split="train")
    failed = [episode for episode in episodes if not episode.won]
    backend = ProbeBackend(lambda: StationEnv(step_limit=10**6), TASK_IDS[6:], seed=3)
    misalignments = backend.analyze(failed, [], identity(CONTRACT))
    return failed, backend, misalignments, backend.optimize(misalignments, identity(CONTRACT))


def known(interface: Interface) -> DecisionLists:
    lists = lists_of(interface.source)
    assert lists is not None
    return lists


def with_rules(interface: Interface, rules: Iterable[Rule], **vocabulary: object) -> Interface:
    words = known(interface).vocabulary.model_copy(update=vocabulary)
    text = source(RuleSet(vocabulary=words, rules=tuple(rules)), CONTRACT)
    return interface.model_copy(update={"source": text})


def is_about(rule: Rule, form: str) -> bool:
    return isinstance(rule, NeedsStep | AlreadySo | AllowedWhere) and rule.form == form


@pytest.mark.long
def test_the_first_finding_is_the_answer_that_tells_nothing(learned):
    _, _, misalignments, _ = learned
    assert "Denied." in misalignments[0].rule


@pytest.mark.long
@pytest.mark.parametrize(
    ("action", "step"),
    [
        ("unseal {0}", "board {0}"),
        ("fetch {0} out {1}", "unseal {0}"),
        ("stow {0} into {1}", "unseal {0}"),
    ],
)
def test_a_missing_step_is_found(learned, action: str, step: str):
    _, _, _, interface = learned
    rules = known(interface).refusing[action]
    assert step in [rule.step.form for rule in rules if isinstance(rule, NeedsStep)]


@pytest.mark.long
def test_every_rule_held_on_tasks_it_was_not_learned_from(learned):
    _, _, misalignments, _ = learned
    new = [(misalignment, rules_in(misalignment.detail)) for misalignment in misalignments]
    rules = [each for each, rules in new if rules and any(isinstance(rule, SituationRule) for rule in rules.rules)]
    assert len(rules) >= 5
    assert all(misalignment.evidence.precision >= 0.9 and misalignment.evidence.support >= 2 for misalignment in rules)


@pytest.mark.long
def test_the_source_loads_and_says_where_it_came_from(learned):
    _, _, misalignments, interface = learned
    check_source(interface.source, CONTRACT)
    assert interface.provenance.backend == "probe"
    assert [rule.text for rule in interface.provenance.rules] == [misalignment.rule for misalignment in misalignments]


@pytest.mark.long
def test_the_same_seed_gives_the_same_interface(learned):
    failed, _, _, interface = learned
    again = ProbeBackend(lambda: StationEnv(step_limit=10**6), TASK_IDS[6:], seed=3)
    assert again.optimize(again.analyze(failed, [], identity(CONTRACT)), identity(CONTRACT)).source == interface.source


@pytest.mark.long
def test_rules_tested_in_several_processes_give_the_same_interface_and_count_the_same_steps(learned, monkeypatch):
    class Apart(StationEnv):
        in_memory = True

    monkeypatch.setattr("align_echo.align.probe.lab.usable_cores", lambda: 2)
    failed, _, misalignments, interface = learned
    apart = ProbeBackend(lambda: Apart(step_limit=10**6), TASK_IDS[6:], seed=3, processes=2)
    assert apart.analyze(failed, [], identity(CONTRACT)) == misalignments
    assert apart.lab.copies == 2
    assert apart.optimize(misalignments, identity(CONTRACT)) == interface


def test_an_environment_that_is_not_all_in_memory_stays_in_one_process():
    lab = Lab(StationEnv(step_limit=10**6), processes=2)
    lab.start(TASK_IDS[0])
    assert lab.copies == 1


@pytest.mark.long
def test_a_second_look_adds_to_the_interface_and_repeats_nothing(learned):
    failed, backend, misalignments, interface = learned
    more = backend.analyze(failed, misalignments, interface)
    assert not {misalignment.rule for misalignment in more} & {misalignment.rule for misalignment in misalignments}
    added = backend.optimize(more, interface) if more else interface
    check_source(added.source, CONTRACT)
    assert known(added).vocabulary.forms == known(interface).vocabulary.forms


def test_the_interface_of_an_older_release_is_not_learned_from():
    episodes = run_tasks(StationEnv, Fumbler(), TASK_IDS[:1], split="train")
    older = identity(CONTRACT).source + "\n\nSPEC = {'uninformative': ['Denied.'], 'templates': {}, 'pairs': []}\n"
    backend = ProbeBackend(lambda: StationEnv(step_limit=10**6), TASK_IDS[6:])
    with pytest.raises(UsageError, match="as an older release wrote them"):
        backend.analyze(episodes, [], identity(CONTRACT).model_copy(update={"source": older}))


def test_walks_also_leave_undone_what_could_be_done():
    lab = Lab(StationEnv(step_limit=10**6))
    states = walk(lab, ActionVocabulary(lab.name), TASK_IDS[0], random.Random(1))
    assert any(
        before.actions[-1:] and {before.actions[-1][:5], after.actions[-1][:5]} == {"board"}
        and f"unseal pod {before.actions[-1][-1]}" in before.admissible
        for before, after in pairwise(states)
    )


def test_of_what_an_agent_repeats_three_refusals_a_task_are_studied():
    """Each is in a state of its own; what else a walk through the task meets is studied in any case."""

    class Sealer:
        name = "sealer"

        def __init__(self, refusals: int) -> None:
            self._refusals = refusals

        def act(self, view: AgentView) -> AgentReply:
            number, deck = len(view.turns), len(view.turns) // 2 % 5 + 1
            action = f"seal pod {deck}" if number % 2 else f"board deck {deck}"
            action = action if number < 2 * self._refusals else "look"
            return AgentReply(text=action, action=action)

    def studied(refusals: int) -> int:
        said: list[str] = []
        episodes = run_tasks(StationEnv, Sealer(refusals), TASK_IDS[:1], split="train")
        backend = ProbeBackend(lambda: StationEnv(step_limit=10**6), [], on_progress=said.append)
        backend.analyze(episodes, [], identity(CONTRACT))
        return next(int(line.split()[0]) for line in said if "refused actions studied" in line)

    once = studied(1)
    assert [studied(refusals) - once for refusals in (2, 3, 6)] == [1, 2, 2]


@pytest.mark.long
def test_rules_told_up_front_are_short_and_carry_no_conditions(learned):
    _, _, _, interface = learned
    told = known(interface).rules_text()
    assert "- Before `unseal X` you may need to" in told
    assert " seen since " not in told
    assert max(map(len, told.splitlines())) < 300


@pytest.mark.long
def test_a_refusal_met_with_one_kind_of_action_only_is_tried_with_others():
    class Sealer(Fumbler):
        def act(self, view: AgentView) -> AgentReply:
            action = f"seal pod {len(view.turns) % 5 + 1}"
            return AgentReply(text=action, action=action)

    failed = run_tasks(StationEnv, Sealer(), TASK_IDS[:2], split="train")
    backend = ProbeBackend(lambda: StationEnv(step_limit=10**6), TASK_IDS[6:8])
    assert "Denied." in backend.analyze(failed, [], identity(CONTRACT))[0].rule


@pytest.mark.long
def test_a_form_that_the_interface_lacks_is_reported_once_it_was_refused(learned):
    failed, backend, _, interface = learned
    lists = known(interface)
    left = tuple(form for form in lists.vocabulary.forms if form != "seal {0}")
    poorer = with_rules(interface, lists.rules, forms=left)
    assert any("forms of action" in misalignment.rule for misalignment in backend.analyze(failed, [], poorer))


@pytest.mark.long
def test_a_later_look_is_at_the_forms_of_which_the_interface_did_not_speak(learned):
    failed, backend, _, interface = learned
    kept = [rule for rule in known(interface).rules if not is_about(rule, "fetch {0} out {1}")]
    poorer = with_rules(interface, kept)
    before, backend = backend.lab.steps, ProbeBackend(backend.make_lab_env, TASK_IDS[6:], seed=4)
    more = backend.analyze(failed, [], poorer)
    assert any(misalignment.rule.startswith("Before `fetch X out Y` you need to") for misalignment in more)
    assert {misalignment.action_type for misalignment in more} == {"fetch {0} out {1}"}
    assert backend.lab.steps < before / 2


@pytest.mark.long
def test_failures_in_which_the_interface_spoke_truly_of_every_refusal_teach_nothing(learned):
    failed, backend, _, interface = learned

    def sealing(episode: Trajectory) -> Trajectory:
        boarded = [step for step in episode.steps if (step.action or "").startswith("board")][:1]
        seals = [step for step in episode.steps if (step.action or "").startswith("seal")]
        return episode.model_copy(update={"steps": (*boarded, *seals)})

    before = backend.lab.steps
    assert backend.analyze([sealing(episode) for episode in failed], [], interface) == []
    assert backend.lab.steps - before < 1_000


@pytest.mark.long
def test_actions_whose_names_cannot_be_told_from_words_teach_nothing(learned, monkeypatch):
    failed, _, _, _ = learned
    said: list[str] = []
    monkeypatch.setattr("align_echo.align.probe.backend.MOST_FORMS", 3)
    backend = ProbeBackend(lambda: StationEnv(step_limit=10**6), TASK_IDS[6:8], on_progress=said.append)
    assert backend.analyze(failed, [], identity(CONTRACT)) == []
    assert any("cannot tell the names in them from the words" in line for line in said)


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "shape"),
    [("{action}? Denied.", "{action}? Denied."), ("", "{same}"), ("Denied.", "Denied.")],
    ids=["quoted", "silent", "plain"],
)
def test_a_refusal_is_known_however_it_looks(answer: str, shape: str):
    class Terse(StationEnv):
        def _act(self, action: str):
            before = self.state.observation
            state = super()._act(action)
            return state if state.observation != "Denied." else self._answer(answer.format(action=action) or before)

    failed = run_tasks(Terse, Fumbler(), TASK_IDS[:4], split="train")
    backend = ProbeBackend(lambda: Terse(step_limit=10**6), TASK_IDS[6:8])
    misalignments = backend.analyze(failed, [], identity(CONTRACT))
    assert json.loads(misalignments[0].detail)["ruleset"]["vocabulary"]["refusals"] == [shape]
    assert any("Before `" in misalignment.rule for misalignment in misalignments)


@pytest.mark.long
def test_an_engine_that_lists_nothing_is_learned_from_what_agents_said_and_it_took():
    class Mute(StationEnv):
        def _answer(self, observation: str):
            return dataclasses.replace(super()._answer(observation), admissible_actions=None)

    failed = run_tasks(Mute, Fumbler(), TASK_IDS[:6], split="train")
    backend = ProbeBackend(lambda: Mute(step_limit=10**6), TASK_IDS[6:])
    misalignments = backend.analyze([episode for episode in failed if not episode.won], [], identity(CONTRACT))
    rules = [misalignment.rule for misalignment in misalignments]
    assert any(rule.startswith("Before `unseal X` you need to `board P`") for rule in rules)


def test_feedback_that_tells_is_left_alone():
    class Telling(StationEnv):
        def _act(self, action: str):
            state = super()._act(action)
            told = f"{action}: that takes gem 9." if state.observation == "Denied." else state.observation
            return self._answer(told)

    failed = run_tasks(Telling, Fumbler(), TASK_IDS[:4], split="train")
    backend = ProbeBackend(lambda: Telling(step_limit=10**6), TASK_IDS[6:])
    assert backend.analyze(failed, [], identity(CONTRACT)) == []
