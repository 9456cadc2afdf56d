"""The probe on pages that stay as they are when an action is refused: what can be named, and what is said of it."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from align_echo.align.probe.backend import ProbeBackend
from align_echo.align.probe.lab import Lab
from align_echo.align.probe.offered.pages import is_silent, replay_states, shows_pages
from align_echo.errors import UsageError
from align_echo.interface.contract import check_source, identity
from align_echo.interface.rules.model import RuleSet
from align_echo.interface.rules.page_guide import PageGuide
from align_echo.interface.rules.rule_file import read_rule_set
from align_echo.rollout.batches import failed, run_tasks
from align_echo.types import AgentReply, AgentView, Misalignment
from align_echo.wrappers.align_wrapper import AlignWrapper
from tests.menu_env import CONTRACT, TASK_IDS, MenuEnv
from tests.worlds.agents import obedient
from tests.worlds.env import WorldEnv
from tests.worlds.worlds import make_world, train_tasks

TEST_TASKS = TASK_IDS[32:]
WORDY = "rice pudding"


class Guest:
    """Names dishes by their description, adds words, leaves the marks out, and orders where nothing can be ordered."""

    name = "guest"

    def act(self, view: AgentView) -> AgentReply:
        rng = random.Random(f"{view.task_id}/{len(view.turns)}")
        page = view.turns[-1].observation if view.turns else view.initial_observation
        parts = page.split(" / ")
        said = [f"tap <{rng.choice(parts)}>", f"tap <{rng.choice(parts)} please>", f"tap {parts[-1]}", "seek stew"]
        said += ["seek: stew"] if "Seek" in parts else ["tap <Order now>"]
        action = rng.choice([*said, f"tap <{rng.choice(parts)}>"])
        return AgentReply(text=action, action=action)


@pytest.fixture(scope="module")
def learned():
    episodes = run_tasks(MenuEnv, Guest(), TASK_IDS[:12], split="train")
    failed = [episode for episode in episodes if not episode.won]
    backend = ProbeBackend(lambda: MenuEnv(10**6), TASK_IDS[12:32], seed=1)
    misalignments = backend.analyze(failed, [], identity(CONTRACT))
    return failed, backend, misalignments, backend.optimize(misalignments, identity(CONTRACT))


@pytest.fixture
def guest(learned: Any):
    """A wrapped world, and a way to say things in it that gives back what the interface adds."""
    check_source(learned[3].source, CONTRACT)
    env = AlignWrapper(MenuEnv(10**6), learned[3])

    def say(*actions: str) -> str:
        shown = raw = ""
        for action in actions:
            shown, _, _, _, info = env.step(action)
            assert info["interface_error"] == ""
            raw = info["raw_observation"]
        return shown.removeprefix(raw).strip()

    env.reset(options={"task": TEST_TASKS[0]})
    yield env, say
    env.close()


def dish_of(env: AlignWrapper) -> tuple[str, str]:
    """A description on the present list, and the code after it."""
    parts = env.unwrapped.state.observation.split(" / ")  # type: ignore[attr-defined]
    codes = [index for index, part in enumerate(parts) if re.fullmatch(r"K-\d+", part)]
    return parts[codes[1] - 1], parts[codes[1]]


def rules_of(learned: Any) -> RuleSet:
    return read_rule_set(learned[3].source) or RuleSet()


def guide_of(learned: Any) -> PageGuide:
    rules = rules_of(learned)
    assert rules.pages is not None
    return PageGuide(rules.pages, rules.rules)


def test_the_silence_is_found_and_every_rule_held_on_fresh_tasks(learned: Any):
    rules: list[Misalignment] = learned[2]
    assert "answered with the page as it was" in rules[0].rule
    assert all(rule.evidence.refuted == 0 and rule.evidence.support >= 5 for rule in rules)
    assert len(learned[3].provenance.rules) == len(rules)


def test_the_forms_are_told_apart_and_what_is_offered_in_vain(learned: Any):
    pages = guide_of(learned).offers
    assert list(pages.closed) == ["mark <{0}>", "tap <{0}>"]
    assert list(pages.free) == ["seek: {0}"]
    assert pages.closed["tap <{0}>"].never == ("seek",)
    assert not pages.any_case


def test_what_is_near_is_said_and_is_possible(guest: Any):
    env, say = guest
    assert say("seek stew") == "`seek stew` is not understood; write `seek: stew` instead."
    assert say("seek: stew") == ""
    text, code = dish_of(env)
    assert say(f"tap <{text}>") == f"`tap <{text}>` is not understood; write `tap <{code}>` instead."
    assert say(f"tap <{code}>") == ""
    assert say("tap <notes>") == "`tap <notes>` is not understood; write `tap <Notes>` instead."
    assert say(f"tap <{WORDY[:-1]}>") == f"`tap <{WORDY[:-1]}>` is not understood; write `tap <{WORDY}>` instead."
    assert say("mark <Notes>") == "`mark <Notes>` is not understood; write `tap <Notes>` instead."
    assert say("please order") == "`please order` is not understood; write `tap <Order>` instead."


def test_a_step_is_named_where_it_comes_first(guest: Any):
    env, say = guest
    say("seek: stew")
    assert say(f"tap <{dish_of(env)[1]}>", "tap <Notes>", "tap <Order now>") == (
        "`tap <Order>` does not work yet: you need to `tap <Up>` first."
    )
    assert say("tap <Up>", "tap <Order>") == ""
    assert env.unwrapped.over


def test_where_nothing_is_near_all_that_is_possible_is_listed(guest: Any):
    env, say = guest
    say("seek: stew")
    assert say(f"tap <{dish_of(env)[1]}>", "tap <Notes>", "tap <zebra>") == (
        "The page is as it was. `tap <X>` takes here: Home | Up. `seek: X` takes any words."
    )


def test_a_choice_that_does_not_show_is_not_called_refused(learned: Any):
    env = MenuEnv(10**6)
    guide, chosen = guide_of(learned), 0
    for task in TEST_TASKS:
        env.reset(options={"task": task})
        env.step("seek: stew")
        env.step(f"tap <{env.offered().names[1]}>")
        page = env.state.observation
        for name in env.offered().names:
            if name not in ("Home", "Up", "Order", "Notes"):
                chosen += 1
                env.step(f"tap <{name}>")
                assert env.state.observation == page
                assert guide.advise(page, f"tap <{name}>").text == ""
    assert chosen > 5


def test_an_agent_that_obeys_comes_further_than_with_a_placebo(learned: Any):
    def steps(placebo: bool) -> int:
        interface = learned[3].model_copy(update={"placebo": placebo})
        played = run_tasks(lambda: AlignWrapper(MenuEnv(), interface), Hasty(), TEST_TASKS, split="test")
        return sum(episode.terminated for episode in played)

    assert steps(placebo=False) == len(TEST_TASKS)
    assert steps(placebo=True) == 0


class Hasty:
    """Says the same wrong thing on each kind of page, unless it is told what to write or what comes first."""

    name = "hasty"

    def act(self, view: AgentView) -> AgentReply:
        page = view.turns[-1].observation if view.turns else view.initial_observation
        told = re.search(r"(?:write|need to) `([^`]+)` (?:instead|first)", page)
        parts = page.split(" / ")
        action = "tap <Order it>" if "Up" in parts else "seek stew" if "Home" not in parts else f"tap <{parts[3]}>"
        action = told[1] if told else action
        return AgentReply(text=action, action=action)


def test_every_claim_is_true_of_pages_of_other_tasks(learned: Any):
    """An adversary says parts of this and other pages, whole and in part, in every form; what is advised is tried."""
    guide, rng, env = guide_of(learned), random.Random(0), MenuEnv(10**6)
    claims, parts = 0, ["zebra"]
    for task in TEST_TASKS:
        env.reset(options={"task": task})
        for _ in range(12):
            parts += env.state.observation.split(" / ")
            for _ in range(6):
                part = rng.choice(parts[-40:])
                words = (part, part.split(" ")[0], f"{part} now", part.lower(), part.title())
                action = rng.choice(("tap <{}>", "mark <{}>", "tap {}", "seek {}", "{}")).format(rng.choice(words))
                claims += tried(env, guide, action)
            actions = [f"tap <{name}>" for name in env.offered().names if name != "Order"]
            env.step(rng.choice([*actions, "seek: plum"]))
    assert claims > 300


def tried(env: MenuEnv, guide: PageGuide, action: str) -> int:
    """Try every command that is advised when an action leaves a page as it was."""
    before = env.snapshot()
    env.step(action)
    advice = guide.advise(before.state.observation, action).text
    if env.state.observation != before.state.observation or not advice:
        env.restore(before)
        return 0
    assert env.snapshot().engine == before.engine, (action, advice)
    names = [name for row in re.findall(r"takes here: ([^.]+)", advice) for name in row.split(" | ")]
    for command in [*re.findall(r"(?:write|need to) `([^`]+)`", advice), *(f"tap <{name}>" for name in names)]:
        env.step(command)
        assert env.snapshot().engine != before.engine or command.removeprefix("tap <")[:-1] in before.engine[2].chosen
        env.restore(before)
    return 1


def test_the_same_seed_gives_the_same_interface_and_a_second_look_nothing_new(learned: Any):
    failed, backend, misalignments, interface = learned
    again = ProbeBackend(lambda: MenuEnv(10**6), TASK_IDS[12:32], seed=1)
    assert again.analyze(failed, [], identity(CONTRACT)) == misalignments
    assert backend.analyze(failed, misalignments, interface) == []


def test_an_interface_of_an_older_release_is_played_and_not_learned_from(learned: Any):
    failed, backend, _, _ = learned
    older = identity(CONTRACT).model_copy(
        update={"source": "SPEC = {'breaks': [' / '], 'uninformative': []}\n" + identity(CONTRACT).source}
    )
    check_source(older.source, CONTRACT)
    with pytest.raises(UsageError, match="as an older release wrote them"):
        backend.analyze(failed, [], older)


@pytest.mark.parametrize("action", ["", "tap <>", "<", "`", "tap <" + "x" * 5000 + ">", "seek:", "tap\n<Home>", "é ü"])
def test_any_text_gets_some_answer(learned: Any, action: str):
    advice = guide_of(learned).advise("Menu / Wanted: a / Home / Up / x", action).text
    assert advice == "" or advice.endswith(".")
    assert len(advice) < 1000


def test_where_the_pages_of_fresh_tasks_refute_what_was_learned_nothing_is_written(learned: Any):
    class Fickle(MenuEnv):
        """In every other of the later tasks nothing can be tapped, whatever is offered."""

        def _act(self, action: str):
            number = int(self._task_id.partition("/")[2])
            return super()._act("" if number > 12 and number % 2 and action.startswith(("tap", "mark")) else action)

    notes: list[str] = []
    backend = ProbeBackend(lambda: Fickle(10**6), TASK_IDS[12:32], seed=1, note=notes.append)
    assert backend.analyze(learned[0], [], identity(CONTRACT)) == []
    assert notes[0].startswith("none of the known kinds was found")


@pytest.mark.parametrize("seed", [0, 4, 9])
def test_a_silent_world_of_text_is_no_page_though_its_first_text_names_all(seed: int):
    features = {"refusal": "silent", "listed": False, "offers": True, "depth": 1, "travel": "none", "goal": "use"}
    world = make_world(seed, **features, wrong_words=0, skipped=1)
    tasks = train_tasks(world, 6)
    stuck = failed(run_tasks(lambda: WorldEnv(world, tasks), obedient(world), tasks, split="train"))
    lab = Lab(WorldEnv(world, tasks, 10**6))
    assert shows_pages(lab, replay_states(lab, stuck))
    assert not is_silent(lab, stuck)
