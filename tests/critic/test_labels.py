"""Labels of actions by each rule, on the real engines, and that labelling leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import gymnasium as gym
import pytest

import align_echo
from align_echo.critic.labels import by_continuing, default_rule, label, labels
from align_echo.errors import EngineError, UsageError
from align_echo.rollout.session import base_env, extend, start_view, take_turn
from align_echo.types import AgentReply
from align_echo.wrappers.alfworld.env import explores
from align_echo.wrappers.catalogue import environment
from tests.critic.episodes import played, way

needs_java = pytest.mark.skipif(find_spec("scienceworld") is None, reason="the extra scienceworld is not installed")

BATS = "train/look_at_obj_in_light-BaseballBat-None-DeskLamp-327/trial_G1_016"
BOX = "find-non-living-thing/easy/0"
RULES: dict[str, tuple[str, ...]] = {
    "alfworld": ("expert", "nearer", "continues"),
    "webshop": ("expert", "nearer", "continues"),
    "scienceworld": ("expert", "continues"),
}
ENVIRONMENTS = ["alfworld", "webshop", pytest.param("scienceworld", marks=needs_java)]


@pytest.fixture(scope="module")
def made() -> Iterator[dict[str, gym.Env[str, str]]]:
    """Environments by name, made when first asked for."""
    envs: dict[str, gym.Env[str, str]] = _Envs()
    yield envs
    for env in envs.values():
        env.close()


class _Envs(dict[str, gym.Env[str, str]]):
    def __missing__(self, name: str) -> gym.Env[str, str]:
        return self.setdefault(name, align_echo.make(name))


def some_tasks(name: str, count: int) -> list[str]:
    """Training tasks, spread evenly; in ScienceWorld short ones of several types."""
    if name == "scienceworld":
        return [BOX, "lifespan-longest-lived/easy/0", "power-component/easy/0"][:count]
    known = align_echo.tasks(name)
    return known[:: len(known) // count][:count]


def by_rule(env: gym.Env[str, str], task: str, before: tuple[str, ...], action: str) -> dict[str, str | None]:
    """What every rule says of an action after others."""
    view = played(env, task, *before)
    return {rule: label(env, view, action, rule) for rule in RULES[base_env(env).contract.environment]}


def all_say(verdict: str) -> dict[str, str | None]:
    return dict.fromkeys(RULES["alfworld"], verdict)


# ---------------------------------------------------------------- ALFWorld


def test_going_to_where_the_thing_is_is_right_by_every_rule(made):
    env = made["alfworld"]
    played(env, BATS)
    assert base_env(env).oracle().expert_action() == way(env)[0] == "go to bed 1"
    assert by_rule(env, BATS, (), "go to bed 1") == all_say("correct")


def test_another_copy_than_the_experts_is_wrong_by_its_rule_alone(made):
    env = made["alfworld"]
    played(env, BATS, "go to bed 1")
    assert base_env(env).oracle().expert_action() == "take baseballbat 3 from bed 1"
    said = by_rule(env, BATS, ("go to bed 1",), "take baseballbat 1 from bed 1")
    assert said == {"expert": "wrong", "nearer": "correct", "continues": "correct"}


def test_a_search_is_right_in_any_order_while_the_thing_was_never_seen_and_shutting_up_again_is_the_experts_alone(made):
    env = made["alfworld"]
    task = next(task for task in align_echo.tasks("alfworld") if "Mug-None-Shelf" in task)
    played(env, task)
    visits = [action for action in base_env(env).state.admissible_actions or () if action.startswith("go to ")]
    own, mugs = base_env(env).oracle().expert_action(), way(env)[0]
    elsewhere = next(action for action in visits if action not in (own, mugs))
    said = by_rule(env, task, (), elsewhere)
    assert (said["expert"], said["nearer"]) == ("wrong", "correct")
    drawer = next(action for action in visits if "drawer" in action)
    opening, shutting = (f"{verb} {drawer.removeprefix('go to ')}" for verb in ("open", "close"))
    view = played(env, task, drawer)
    assert opening != way(env)[0]
    assert explores(view, opening)
    assert by_rule(env, task, (drawer,), opening) == all_say("correct")
    view = played(env, task, drawer, opening)
    assert not explores(view, opening)
    assert by_rule(env, task, (drawer, opening), opening) == all_say("wrong")
    assert by_rule(env, task, (drawer, opening), shutting) == {**all_say("correct"), "nearer": "wrong"}


@pytest.mark.parametrize("action", ["dance", "Go to bed 1", "go to bed 99", "look", "take baseballbat 1 from bed 1"])
def test_what_is_refused_or_idle_is_wrong_by_every_rule(made, action):
    assert by_rule(made["alfworld"], BATS, (), action) == all_say("wrong")


def test_what_was_done_already_is_wrong_by_every_rule(made):
    assert by_rule(made["alfworld"], BATS, ("go to bed 1",), "go to bed 1") == all_say("wrong")


def test_a_step_explores_by_what_the_player_read_alone(made):
    env = made["alfworld"]
    view = played(env, BATS)
    assert explores(view, "go to bed 1")
    assert explores(view, "open drawer 99")
    assert not explores(view, "examine bed 1")
    view = played(env, BATS, "go to bed 1")
    assert explores(view, "go to desk 1") == ("desklamp" not in view.turns[-1].observation)
    assert not explores(view, "go to bed 1")


# ---------------------------------------------------------------- WebShop


def shopping() -> str:
    """A task whose product has an option to choose."""
    return align_echo.tasks("webshop")[0]


def test_the_option_that_was_asked_for_is_right_and_buying_before_it_is_wrong(made):
    env = made["webshop"]
    played(env, shopping())
    search, product, option, buy = way(env)
    played(env, shopping(), search, product)
    sizes = [action for action in base_env(env).state.admissible_actions or () if action.endswith(" in]")]
    other = next(size for size in sizes if size != option)
    assert by_rule(env, shopping(), (search, product), option) == all_say("correct")
    assert by_rule(env, shopping(), (search, product), other) == all_say("wrong")
    assert by_rule(env, shopping(), (search, product), buy) == all_say("wrong")
    assert by_rule(env, shopping(), (search, product, option), buy) == all_say("correct")


def test_a_search_in_other_words_that_lists_the_product_is_wrong_by_the_experts_rule_alone(made):
    env = made["webshop"]
    played(env, shopping())
    said = by_rule(env, shopping(), (), "search[ardenne botanical sheer curtains]")
    assert said == {"expert": "wrong", "nearer": "correct", "continues": "correct"}
    loudly = way(env)[0].replace("curtains", " CURTAINS")
    assert by_rule(env, shopping(), (), loudly) == all_say("correct")


# ---------------------------------------------------------------- ScienceWorld


@pytest.mark.long
@needs_java
def test_the_expert_may_go_on_from_beside_its_path(made):
    env = made["scienceworld"]
    played(env, BOX)
    assert base_env(env).oracle().expert_action() == "open door to kitchen"
    assert by_rule(env, BOX, (), "Open  the door to kitchen") == {"expert": "correct", "continues": "correct"}
    assert by_rule(env, BOX, (), "teleport to kitchen") == {"expert": "wrong", "continues": "correct"}
    assert by_rule(env, BOX, (), "focus on picture") == {"expert": "wrong", "continues": "wrong"}
    after = ("inventory", "teleport to kitchen")
    assert by_rule(env, BOX, after, "focus on cupboard") == {"expert": None, "continues": "correct"}
    assert by_rule(env, BOX, after, "teleport to hallway") == {"expert": None, "continues": "wrong"}
    assert by_rule(env, BOX, ("focus on picture",), "teleport to kitchen") == {"expert": None, "continues": None}


@pytest.mark.long
@needs_java
def test_an_idle_action_costs_one_and_is_right_where_that_is_allowed(made):
    env = made["scienceworld"]
    view = played(env, BOX)
    idle = ["look around", "xyzzy", "teleport to greenhouse", "wait1"]
    assert labels(env, view, idle, "continues") == ["wrong"] * 4
    assert by_continuing(base_env(env), view, [*idle, "focus on picture"], allowance=1) == [*["correct"] * 4, "wrong"]
    view = played(env, BOX, "go to kitchen")
    assert by_continuing(base_env(env), view, ["teleport to hallway"], allowance=1) == ["wrong"]
    assert by_continuing(base_env(env), view, ["teleport to hallway"], allowance=2) == ["correct"]


@pytest.mark.long
@needs_java
def test_no_distance_is_measured_where_there_is_one_path(made):
    view = played(made["scienceworld"], BOX)
    with pytest.raises(UsageError, match="take the rule continues or expert"):
        label(made["scienceworld"], view, "look around", "nearer")


# ---------------------------------------------------------------- all of them


@pytest.mark.long
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_experts_own_actions_are_right_all_the_way(made, name):
    env = made[name]
    base = base_env(env)
    steps = 0
    for task in some_tasks(name, 3):
        view = start_view(env, task, "", seed=0)
        while not base.over and (own := base.oracle().expert_action()) is not None:
            assert label(env, view, own, "expert") == "correct"
            assert label(env, view, own, "continues") == "correct"
            if name == "webshop":
                assert label(env, view, own, "nearer") == "correct"
            view = extend(view, take_turn(env, AgentReply(text=own, action=own)))
            steps += 1
        assert base.state.won
    assert steps >= 8


@pytest.mark.long
def test_what_the_handcoded_expert_does_in_vain_is_all_that_nearer_calls_wrong_on_its_way(made):
    env = made["alfworld"]
    base = base_env(env)
    said = {"correct": 0, "wrong": 0}
    for task in some_tasks("alfworld", 20):
        view = start_view(env, task, "", seed=0)
        while not base.over and (own := base.oracle().expert_action()) is not None:
            verdict = label(env, view, own, "nearer")
            assert verdict is not None
            said[verdict] += 1
            if verdict == "wrong":
                assert own.startswith(("close ", "examine ")) or not explores(view, own)
                assert not own.startswith(("take ", "move ", "use ", "heat ", "clean ", "cool "))
            view = extend(view, take_turn(env, AgentReply(text=own, action=own)))
    assert said["correct"] > 3 * said["wrong"] > 0


@pytest.mark.long
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_labelling_leaves_no_trace_in_what_follows(made, name):
    env = made[name]
    base = base_env(env)
    task = some_tasks(name, 1)[0]
    idle = ["look around", "click[< prev]", "examine bed 1", "xyzzy"]
    stories, moments = [], []
    for labelling in (False, True):
        view = start_view(env, task, "", seed=0)
        story, over = [], False
        while not over:
            own = base.oracle().expert_action() or ""
            if labelling:
                moment = (base.state, base.engine_calls, base.over, base.step_limit, base.info(None))
                for rule in RULES[name]:
                    labels(env, view, [*idle, own], rule)
                moments.append((moment, (base.state, base.engine_calls, base.over, base.step_limit, base.info(None))))
            step = take_turn(env, AgentReply(text=own, action=own))
            story.append((own, step))
            view, over = extend(view, step), step.terminated or step.truncated
        stories.append(story)
    assert stories[0] == stories[1]
    assert all(before == after for before, after in moments)


@pytest.mark.long
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_several_actions_are_labelled_as_each_alone(made, name):
    env = made[name]
    view = played(env, some_tasks(name, 1)[0])
    own = base_env(env).oracle().expert_action() or ""
    actions = [own, "xyzzy", own, "look around", "go to nowhere"]
    for rule in RULES[name]:
        assert labels(env, view, actions, rule) == [label(env, view, action, rule) for action in actions]
        assert labels(env, view, [], rule) == []


def test_the_expert_goes_on_past_the_step_limit():
    env = align_echo.make("alfworld", step_limit=2)
    said = by_rule(env, BATS, ("go to bed 1",), "take baseballbat 1 from bed 1")
    assert said == {"expert": "wrong", "nearer": "correct", "continues": "correct"}
    assert not base_env(env).over
    env.close()


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_nothing_is_right_once_the_episode_is_over(name):
    env = align_echo.make(name, step_limit=1)
    view = played(env, some_tasks(name, 1)[0], "look")
    for rule in RULES[name]:
        with pytest.raises(EngineError, match="over"):
            label(env, view, "look", rule)
    env.close()


def test_where_an_expert_plans_going_on_and_coming_nearer_are_one(made):
    env = made["webshop"]
    for task in some_tasks("webshop", 3):
        played(env, task)
        for done in range(len(way(env))):
            played(env, task)
            view = played(env, task, *way(env)[:done])
            actions = base_env(env).state.admissible_actions or ()
            assert labels(env, view, actions, "nearer") == labels(env, view, actions, "continues")


def test_the_default_rule_is_nearer_where_distance_is_measured():
    specs = [environment(name) for name in ("alfworld", "webshop", "scienceworld")]
    assert [default_rule(spec) for spec in specs] == ["nearer", "nearer", "continues"]


@pytest.mark.parametrize(
    ("name", "one", "other", "same"),
    [
        ("alfworld", " go to bed 1\n", "go to bed 1", True),
        ("alfworld", "Go to bed 1", "go to bed 1", False),
        ("scienceworld", "Pick up  the thermometer", "pick up thermometer", True),
        ("scienceworld", "pick up thermometer.", "pick up thermometer", False),
        ("webshop", "click[Buy Now]", "click[buy now]", True),
        ("webshop", "click[ buy now]", "click[buy now]", False),
        ("webshop", "search[ blue  Shoes]", "search[blue shoes]", True),
        ("webshop", "Search[blue shoes]", "search[blue shoes]", False),
    ],
)
def test_actions_are_the_same_if_the_engine_reads_them_so(made, name, one, other, same):
    as_read = base_env(made[name]).as_read
    assert (as_read(one) == as_read(other)) == same
