"""What can be said to an engine that lists nothing: forms that worked, in won episodes too, and forms that were only
refused so far."""

from __future__ import annotations

import random

import pytest

from align_echo.align.probe.cases import ActionVocabulary, spelling_needed, try_case, walk
from align_echo.align.probe.findings import obey
from align_echo.align.probe.lab import Lab
from align_echo.align.probe.names import ActionForms, heard_sayings
from align_echo.align.probe.rules import taken_actions
from align_echo.interface.contract import InterfaceContract
from align_echo.interface.rules.answers import SAME
from align_echo.interface.rules.decisions import DecisionLists
from align_echo.interface.rules.model import MissingStep, NeedsStep
from align_echo.interface.rules.rule_file import read_rule_set
from align_echo.interface.rules.situations import OwnName
from align_echo.rollout.batches import failed, run_tasks
from align_echo.wrappers.text_env import EngineState, TextEnv
from tests.menu_env import NoOracle
from tests.worlds.agents import obedient
from tests.worlds.env import WorldEnv
from tests.worlds.measure import Size, claims_of, false_claims, learn, true_claims
from tests.worlds.worlds import World, make_world, train_tasks

TAKEN = {"open crate", "open chest", "open urn"}


def forms(said: set[str], *texts: str) -> tuple[str, ...]:
    return heard_sayings(TAKEN, TAKEN | said, texts).forms


def test_a_form_that_was_only_refused_is_tried_if_it_was_said_of_several_names():
    texts = ("There are the crate, the chest, the urn.",)
    assert "shut {0}" not in forms({"shut crate"}, *texts)
    assert "shut {0}" in forms({"shut crate", "shut chest"}, *texts)


def test_what_the_engine_never_printed_is_no_name_though_agents_speak_of_it():
    said = {"open safe", "shut safe", "shut crate"}
    assert "safe" not in heard_sayings(TAKEN, TAKEN | said, ["the crate, the chest, the urn"]).name


def test_words_of_a_form_before_a_printed_name_are_no_part_of_it_though_few_actions_worked():
    accepted = {"vafix va nofil", "vafix va pibox", "kavu lurim vu pibox"}
    said = {"vafix va bumu", "kavu mula vu bumu", "kavu mula vu nofil", "rafam bumu ba mula", "rafam nofil ba radu"}
    texts = ["There are ledux, pibox, nofil, bumu. Somewhere there are kemen, lurim, mula, radu."]
    tried = heard_sayings(accepted, accepted | said, texts)
    assert tried.forms == ("kavu {0} vu {1}", "rafam {0} ba {1}", "vafix va {0}")
    worked = heard_sayings(accepted, accepted | said, texts, most_tried=0)
    assert (worked.forms, worked.names) == (("kavu {0} vu {1}", "vafix va {0}"), tried.names)


def test_the_action_that_wins_counts_as_accepted():
    world = make_world(854)  # who finds the word for putting wins by it
    tasks = train_tasks(world, 10)
    episodes = run_tasks(lambda: WorldEnv(world, tasks), obedient(world), tasks, split="train")
    won = {episode.task_id: episode.steps[-1].action for episode in episodes if episode.won}
    assert won
    assert won.items() <= {*taken_actions(episodes, failed(episodes), [SAME])}


@pytest.mark.long
def test_a_step_that_no_rule_proved_to_be_needed_may_be_needed():
    world = make_world(793)
    interface, _ = learn(world, Size())
    take, go = world.forms["take"].template, world.forms["go"].template
    rules = read_rule_set(interface.source)
    assert rules is not None
    assert not any(isinstance(rule, NeedsStep) and (rule.form, rule.step.form) == (take, go) for rule in rules.rules)
    assert (take, go) in claims_of(interface.source).needs


@pytest.fixture(scope="module")
def world() -> World:
    """Nothing is listed or offered, refusals are silent, and who finds the word for taking wins: what comes after it
    was never said with success in an episode that was lost."""
    return make_world(11, listed=False, offers=False)


@pytest.mark.long
def test_what_worked_in_won_episodes_is_learned_from(world: World):
    interface, _ = learn(world, Size(fresh=10))
    claims = claims_of(interface.source)
    assert not false_claims(world, claims)
    true_rules = true_claims(world, claims)
    assert (world.wrong["take"], world.forms["take"].template) in true_rules["wordings"]
    assert any(world.forms["put"].template in pair for pair in true_rules["needs"])


class BellEnv(TextEnv):
    """Bells that can be rung at any time, which changes nothing, and oiled; the engine refuses by saying again what it
    said last, so that ringing twice in a row looks like a refusal."""

    def __init__(self) -> None:
        contract = InterfaceContract(
            environment="bells",
            infer_rules_args=("init_obs", "task"),
            wrap_step_args=("env", "init_obs", "task", "agent_action", "logger"),
            step_layout="single",
        )
        super().__init__(("bells/0",), contract, 50)
        self._oiled: frozenset[str] = frozenset()

    @property
    def goal(self) -> str:
        return "none"

    @property
    def task_type(self) -> str:
        return "bells"

    def oracle(self) -> NoOracle:
        return NoOracle()

    def _load(self, task_id: str) -> EngineState:
        self._oiled = frozenset()
        return EngineState("There are east bell, west bell.", 0.0, False, False, None)

    def _act(self, action: str) -> EngineState:
        verb, _, bell = action.partition(" ")
        text = self._state.observation
        if verb == "ring" and bell in ("east bell", "west bell"):
            text = f"The {bell} rings."
        if verb == "oil" and bell in {"east bell", "west bell"} - self._oiled:
            self._oiled |= {bell}
            text = f"You oil the {bell}."
        return EngineState(text, 0.0, False, False, None)

    def _probe(self, action: str) -> str:
        return ""

    def _save(self) -> frozenset[str]:
        return self._oiled

    def _restore(self, task_id: str, saved: frozenset[str]) -> None:
        self._oiled = saved


def bells() -> tuple[Lab, ActionVocabulary]:
    """A laboratory of bells, and what walks through them tell."""
    lab = Lab(BellEnv())
    lab.refusals = [SAME]
    lab.sayings = ActionForms(("ring {0}", "oil {0}"), ("east bell", "west bell"))
    lab.use_names(lab.sayings.names)
    lab.compare_saved(lab.start("bells/0"))
    vocabulary = ActionVocabulary(lab.name)
    for seed in range(5):
        walk(lab, vocabulary, "bells/0", random.Random(seed), 12)
    return lab, vocabulary


def test_silence_that_may_be_an_answer_makes_no_need():
    _, vocabulary = bells()
    assert not [need for need, times in vocabulary.enabled.items() if times and need[:2] == ("ring {0}", "oil {0}")]


def test_a_step_after_which_a_silent_answer_comes_again_did_not_help():
    lab, vocabulary = bells()
    lists = DecisionLists(vocabulary.build(lab.names, lab.refusals, (), spelling_needed([])), ())
    rung = lab.follow("bells/0", ["ring east bell"])
    case = try_case(lab, lists, rung, "ring east bell")
    assert (case.now, case.already, case.steps) == (False, False, frozenset())
    oil = MissingStep("oil {0}", (OwnName("name", 0),))
    verdict = obey(lab, lists.with_rules([NeedsStep(form="ring {0}", when=(), step=oil)]), rung, "ring east bell")
    assert verdict is not None
    assert verdict.wrong
