"""The probe on a world that offers its vocabulary: it finds ways, where things are, and what is misworded."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.offered.learner import stands
from align_echo.align.probe.offered.survey import VocabularySurvey, learn_surroundings, often
from align_echo.interface.contract import Interface, check_source, identity
from align_echo.interface.rules.place_guide import PlaceGuide
from align_echo.interface.rules.rule_file import read_rule_set
from align_echo.rollout.batches import run_tasks
from align_echo.rollout.session import base_env
from align_echo.types import AgentReply, AgentView, Evidence
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import ActionOptions, EngineState
from tests.annex_env import CONTRACT, PLACES, REFUSED, TASK_IDS, THINGS, AnnexEnv


class Bumbler:
    """Says things of what it saw anywhere, some of them worded wrongly."""

    name = "bumbler"

    def act(self, view: AgentView) -> AgentReply:
        rng = random.Random(f"{view.task_id}/{len(view.turns)}")
        text = view.initial_observation + " ".join(turn.observation for turn in view.turns)
        seen = sorted(thing for thing in THINGS if thing in text) or ["tin"]
        thing, other = rng.sample([*seen, "clock", "stool"], 2)
        said = [
            f"beam {rng.choice(PLACES[:-1])}",
            f"grasp {thing} off {other}",
            f"stick {thing} on {other}",
            f"ping {thing}",
            f"grasp {thing}",
            f"lodge {thing}",
            "peer",
        ]
        action = rng.choice(said)
        return AgentReply(text=action, action=action)


@pytest.fixture(scope="module", autouse=True)
def more_names_than_can_be_tried():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("align_echo.align.probe.backend.MOST_SAYINGS", 0)
        yield


@pytest.fixture(scope="module")
def learned(more_names_than_can_be_tried):
    episodes = run_tasks(AnnexEnv, Bumbler(), TASK_IDS[:16], split="train")
    failed = [episode for episode in episodes if not episode.won]
    backend = ProbeBackend(lambda: AnnexEnv(step_limit=10**6), TASK_IDS[16:], seed=1)
    misalignments = backend.analyze(failed, [], identity(CONTRACT))
    return failed, backend, misalignments, backend.optimize(misalignments, identity(CONTRACT))


def guide_of(interface: Interface) -> PlaceGuide:
    rules = read_rule_set(interface.source)
    assert rules is not None
    assert rules.places is not None
    return PlaceGuide(rules.places, rules)


def readings(interface: Interface) -> dict[str, str]:
    guide = guide_of(interface)
    return {form: guide.reading(form) for form in guide.wordings}


def test_the_way_of_travelling_is_told_from_the_one_next_door(learned):
    guide = guide_of(learned[3])
    assert (guide.travel, guide.known.movers) == ("beam {0}", ("beam {0}", "stroll {0}"))


def test_all_places_are_found_and_nothing_else_is_one(learned):
    assert guide_of(learned[3]).known.places == tuple(sorted(PLACES))


def test_the_view_that_names_the_place_leads_and_a_constant_text_is_no_view(learned):
    assert guide_of(learned[3]).known.views == ("peer", "pockets")


def test_what_stands_around_a_name_is_learned_of_whole_names_only():
    survey = VocabularySurvey(uninformative=())
    text = "a shed. two: a red wire (that is cut)\n\ttin\na wire is here."
    learn_surroundings(survey, text, {"red wire", "wire", "tin"})
    assert (survey.before, survey.after) == ({"": 1, "a": 2}, {"": 2, "is": 1})


def test_words_that_stand_around_names_by_exception_are_parts_of_names_that_were_missed():
    assert often(Counter({"a": 150, "red": 1})) == {"a"}


def test_misworded_forms_are_read_by_what_they_would_change(learned):
    assert readings(learned[3]) == {"grasp {0} off {1}": "grasp {0}", "stick {0} on {1}": "lodge {0} on {1}"}


def test_every_rule_held_on_tasks_it_was_not_learned_from(learned):
    rules = learned[2][1:]
    assert len(rules) == 4
    assert all(rule.evidence.support >= 3 and rule.evidence.precision >= 0.9 for rule in rules)


def test_what_held_on_one_fresh_task_alone_is_not_claimed(learned):
    failed, _, _, _ = learned
    backend = ProbeBackend(lambda: AnnexEnv(step_limit=10**6), TASK_IDS[16:17], seed=1)
    interface = backend.optimize(backend.analyze(failed, [], identity(CONTRACT)), identity(CONTRACT))
    assert readings(learned[3]) != {} == readings(interface)


@pytest.mark.parametrize(
    ("support", "refuted", "claimed"), [(2, 0, False), (3, 0, True), (8, 1, False), (9, 1, True), (0, 0, False)]
)
def test_a_claim_held_three_times_and_in_nine_of_ten_trials(support, refuted, claimed):
    assert stands(Evidence(support=support, refuted=refuted)) is claimed


def test_forms_that_take_whatever_is_in_sight_are_found(learned):
    assert [*guide_of(learned[3]).sure] == ["grasp {0}", "ping {0}"]
    assert "- Whatever is in sight can be named in `grasp X`, `ping X`" in learned[3].source.replace("\\n", "\n")


def test_a_form_that_takes_most_of_what_is_in_sight_is_not_promised():
    class Deaf(AnnexEnv):
        def _act(self, action: str) -> EngineState:
            return self._answer(REFUSED) if action == "ping clock" else super()._act(action)

    episodes = run_tasks(Deaf, Bumbler(), TASK_IDS[:16], split="train")
    failed = [episode for episode in episodes if not episode.won]
    backend = ProbeBackend(lambda: Deaf(step_limit=10**6), TASK_IDS[16:], seed=1)
    interface = backend.optimize(backend.analyze(failed, [], identity(CONTRACT)), identity(CONTRACT))
    assert [*guide_of(interface).sure] == ["grasp {0}"]


def test_forms_that_some_tasks_lack_are_told_apart(learned):
    class Uneven(AnnexEnv):
        def offered(self) -> ActionOptions:
            every = super().offered()
            lacks = int(self.info(None)["task_id"].split("/")[1]) % 3 == 0
            templates = (template for template in every.templates if not (lacks and template == "ping {0}"))
            return ActionOptions(tuple(templates), every.names)

    episodes = run_tasks(Uneven, Bumbler(), TASK_IDS[:16], split="train")
    failed = [episode for episode in episodes if not episode.won]
    backend = ProbeBackend(lambda: Uneven(step_limit=10**6), TASK_IDS[16:], seed=1)
    interface = backend.optimize(backend.analyze(failed, [], identity(CONTRACT)), identity(CONTRACT))
    assert guide_of(interface).known.sometimes == ("ping {0}",)
    assert guide_of(learned[3]).known.sometimes == ()
    assert "- Some tasks understand these too: `ping X`" in interface.source.replace("\\n", "\n")
    assert "only these" not in interface.source


def test_the_source_runs_in_the_sandbox_and_its_advice_works(learned):
    _, _, _, interface = learned
    check_source(interface.source, CONTRACT)
    env = AlignWrapper(AnnexEnv(step_limit=100), interface)
    _, info = env.reset(options={"task": TASK_IDS[18]})
    assert "`beam the place where it was seen` first" in info["rules"]
    where: dict[str, str] = {}
    for place in PLACES:
        env.step(f"beam {place}")
        where |= {thing: place for thing in THINGS if thing in base_env(env).probe("peer")}
    thing = next(thing for thing in THINGS if where[thing] != PLACES[-1])
    shown = env.step(f"grasp {thing} off {thing}")[0]
    assert f"you need to `beam {where[thing]}` first" in shown
    env.step(re.findall(r"`(beam [^`]+)` first", shown)[0])
    shown = env.step(f"grasp {thing} off {thing}")[0]
    assert f"write `grasp {thing}` instead" in shown
    assert env.step(f"grasp {thing}")[0] == f"The {thing} is yours."


def test_what_was_never_seen_is_said_to_be_unknown(learned):
    env = AlignWrapper(AnnexEnv(), learned[3])
    env.reset(options={"task": TASK_IDS[18]})
    shown, _, _, _, info = env.step("ping teapot")
    assert "Nothing called `teapot` was seen so far" in shown
    assert info["raw_observation"] == "Eh?"


def test_the_same_seed_gives_the_same_interface(learned):
    failed, _, _, interface = learned
    again = ProbeBackend(lambda: AnnexEnv(step_limit=10**6), TASK_IDS[16:], seed=1)
    assert again.optimize(again.analyze(failed, [], identity(CONTRACT)), identity(CONTRACT)).source == interface.source


def test_a_second_look_finds_nothing_new(learned):
    failed, backend, misalignments, interface = learned
    assert backend.analyze(failed, misalignments, interface) == []


def test_feedback_that_tells_is_left_alone():
    class Telling(AnnexEnv):
        def _answer(self, observation: str) -> EngineState:
            return super()._answer(f"No tin, no {observation}" if observation == "Eh?" else observation)

    failed = run_tasks(Telling, Bumbler(), TASK_IDS[:4], split="train")
    said: list[str] = []
    backend = ProbeBackend(lambda: Telling(step_limit=10**6), TASK_IDS[16:], on_progress=said.append)
    assert backend.analyze(failed, [], identity(CONTRACT)) == []
    assert said[-1].startswith("none of the known kinds was found in 4 failed episodes (160 answers to ")
