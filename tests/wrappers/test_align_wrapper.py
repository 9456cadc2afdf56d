"""AlignWrapper: what the agent is shown, which engine calls pass, and who decides on reward and end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from align_echo.errors import EngineError, InterfaceError, UsageError
from align_echo.interface.contract import STEP_LAYOUTS, identity, identity_source
from align_echo.types import Violation
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.text_env import EngineState
from tests.play import TASK, WINNING, interface, outcome, play, source, wrapped
from tests.room_env import CONTRACT, RoomEnv

NOT_ALLOWED = "neither the agent's own action nor a read-only one"

HELPFUL = source(
    """
    if not hasattr(env, "_location"):
        env._location = "kitchen"
    seen, _, _, _ = env.step(["look"])
    held, _, _, _ = env.step(["inventory"])
    logger.debug(f"sees {seen[0]!r}")
    if agent_action.startswith("go to ") and agent_action[6:] == env._location:
        return f"You are already in the {env._location}.", False, False
    obs, reward, done, info = env.step([agent_action])
    obs, won, done = obs[0], info["won"][0], done[0]
    if obs.startswith("You arrive at the "):
        env._location = obs.split(".")[0][len("You arrive at the "):]
    if obs == "Nothing happens." and agent_action.startswith("take "):
        return f"There is no {agent_action[5:]} here. {held[0]}", won, done
    return obs, won, done
    """,
    rules="return 'Go to a room before you take anything there.'",
)


@pytest.fixture
def helpful():
    env = wrapped(HELPFUL)
    yield env
    env.close()


def test_identity_changes_nothing_the_agent_sees():
    raw, env = RoomEnv(), AlignWrapper(RoomEnv(), identity(CONTRACT))
    assert env.reset(options={"task": TASK})[0] == raw.reset(options={"task": TASK})[0]
    for action in ("look", "dance", *WINNING):
        shown, expected = env.step(action), raw.step(action)
        assert shown[:4] == expected[:4]
        assert shown[4] == expected[4] | {"interface_error": "", "violations": (), "forged": ()}


@pytest.mark.parametrize("layout", sorted(STEP_LAYOUTS))
def test_the_identity_changes_nothing_in_any_layout(layout):
    contract = CONTRACT.model_copy(update={"step_layout": layout})
    env = AlignWrapper(RoomEnv(contract=contract), interface(identity_source(contract), contract))
    assert [step[0] for step in play(env)] == [step[0] for step in play(RoomEnv())]


def test_rules_come_before_the_initial_observation(helpful):
    shown, info = helpful.reset(options={"task": TASK})
    assert info["rules"] == "Go to a room before you take anything there."
    assert info["raw_observation"] == RoomEnv().reset(options={"task": TASK})[0]
    assert shown == f"{info['rules']}\n\n{info['raw_observation']}"


def test_feedback_replaces_the_observation_and_the_raw_one_is_kept(helpful):
    helpful.reset(options={"task": TASK})
    shown, _, _, _, info = helpful.step("take book 1")
    assert shown == "There is no book 1 here. You are not carrying anything."
    assert info["raw_observation"] == "Nothing happens."


def test_probes_are_engine_calls_but_not_turns(helpful):
    helpful.reset(options={"task": TASK})
    info = helpful.step("take mug 1")[4]
    assert (info["turns"], info["engine_calls"]) == (1, 3)


def test_state_on_env_lasts_for_the_episode_and_no_longer(helpful):
    for _ in range(2):
        helpful.reset(options={"task": TASK})
        assert helpful.step("go to study")[0].startswith("You arrive at the study.")
        assert helpful.step("go to study")[0] == "You are already in the study."


def test_an_answer_without_the_engine_is_a_turn(helpful):
    helpful.reset(options={"task": TASK})
    shown, reward, _, _, info = helpful.step("go to kitchen")
    assert shown == "You are already in the kitchen."
    assert (reward, info["turns"], info["raw_observation"]) == (0.0, 1, None)


def test_the_interface_log_is_kept_by_turn(helpful):
    helpful.reset(options={"task": TASK})
    helpful.step("look")
    helpful.step("take mug 1")
    turns = [(entry.turn, entry.level) for entry in helpful.log]
    assert turns == [(1, "debug"), (2, "debug")]
    assert "You see a mug 1" in helpful.log[0].message


def test_halves_can_be_switched_off():
    no_rules, no_feedback = wrapped(HELPFUL, use_rules=False), wrapped(HELPFUL, use_feedback=False)
    assert no_rules.reset(options={"task": TASK})[1]["rules"] == ""
    assert no_rules.step("take book 1")[0].startswith("There is no book 1 here.")
    assert no_feedback.reset(options={"task": TASK})[1]["rules"] != ""
    assert no_feedback.step("take book 1")[0] == "Nothing happens."


@pytest.mark.parametrize("action", ["look", "inventory"])
@pytest.mark.parametrize("body", ["env.step(['look'])", "env.step(['inventory'])", "pass"])
def test_looking_and_forwarding_a_look_both_work(action, body):
    env = wrapped(source(body + "\nobs, _, done, info = env.step([agent_action])\nreturn obs[0], False, False"))
    raw = RoomEnv()
    raw.reset(options={"task": TASK})
    env.reset(options={"task": TASK})
    result, expected = env.step(action), raw.step(action)
    assert (result[0], result[4]["turns"], result[4]["raw_observation"]) == (expected[0], 1, expected[0])
    assert result[4]["violations"] == ()


def test_a_look_that_was_only_probed_counts_as_the_agents_turn():
    env = wrapped(source("obs, _, _, _ = env.step(['look'])\nreturn 'seen: ' + obs[0], False, False"))
    env.reset(options={"task": TASK})
    shown, _, _, _, info = env.step("look")
    assert shown == f"seen: {info['raw_observation']}"
    assert (info["turns"], info["engine_calls"]) == (1, 1)


def test_looking_twice_on_the_last_turn_is_no_violation():
    env = wrapped(
        source("env.step(['look'])\nobs, _, done, _ = env.step([agent_action])\nreturn obs[0], False, done[0]")
    )
    results = play(env, ())
    assert results[-1][3]
    assert all(step[4]["violations"] == () and not step[4]["interface_error"] for step in results)


def test_surrounding_blanks_do_not_make_another_action():
    env = wrapped(
        source("obs, _, done, info = env.step([agent_action.strip()])\nreturn obs[0], info['won'][0], done[0]")
    )
    raw = RoomEnv()
    env.reset(options={"task": TASK})
    raw.reset(options={"task": TASK})
    assert env.step(" go to study ")[0] == raw.step(" go to study ")[0]


class LooseRoom(RoomEnv):
    """The two-room world with an engine that heeds neither case nor spaces; `heard` is what it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def as_read(self, action: str) -> str:
        return " ".join(action.lower().split())

    def _act(self, action: str) -> EngineState:
        self.heard.append(action)
        return super()._act(self.as_read(action))


FORWARDED_IN_LOWER_CASE = "obs, _, done, info = env.step([agent_action.lower().strip()])\nreturn obs[0], False, done[0]"


def test_the_agents_action_is_its_own_in_whatever_way_the_engine_reads_alike():
    base = LooseRoom()
    env = AlignWrapper(base, interface(source(FORWARDED_IN_LOWER_CASE)))
    env.reset(options={"task": TASK})
    shown, _, _, _, info = env.step("Take  MUG 1")
    assert shown == "You take the mug 1."
    assert (info["violations"], info["interface_error"], info["engine_calls"]) == ((), "", 1)
    assert base.heard == ["Take  MUG 1"]


def test_a_look_is_one_in_whatever_way_the_engine_reads_it():
    base = LooseRoom()
    twice = source("return env.step([' LOOK '])[0][0] + env.step(['Look'])[0][0], False, False")
    env = AlignWrapper(base, interface(twice))
    first, _ = env.reset(options={"task": TASK})
    shown, _, _, _, info = env.step("take mug 1")
    assert shown == 2 * first.partition(" Your task")[0]
    assert (info["violations"], info["interface_error"], info["turns"], base.heard) == ((), "", 1, [])


@pytest.mark.parametrize("body", ["env.step(['DROP  book 1'])", "env.step([agent_action])\nenv.step(['Take Mug 1'])"])
def test_what_is_not_the_agents_or_comes_again_is_refused_in_any_case_of_letters(body):
    env = AlignWrapper(LooseRoom(), interface(source(body + "\nreturn 'never shown', False, False")))
    env.reset(options={"task": TASK})
    info = env.step("take mug 1")[4]
    assert len(info["violations"]) == 1
    assert info["interface_error"]


def test_two_things_that_are_no_action_are_not_the_same_one():
    class Deaf(LooseRoom):
        def as_read(self, action: str) -> str:
            return ""

    env = AlignWrapper(Deaf(), interface(source("env.step(['babble'])\nreturn 'never shown', False, False")))
    env.reset(options={"task": TASK})
    assert NOT_ALLOWED in env.step("dance")[4]["interface_error"]


# ---------------------------------------------------------------- refused calls


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("env.step(['drop book 1'])", NOT_ALLOWED),
        ("env.step([agent_action.upper()])", NOT_ALLOWED),
        ("env.step([agent_action])\nenv.step([agent_action])", "already carried out"),
        ("env.step([agent_action])\nenv.step(['drop book 1'])", NOT_ALLOWED),
        ("_align_engine('drop book 1')", NOT_ALLOWED),
    ],
)
def test_a_refused_call_is_a_violation_and_costs_a_fallback(body, reason):
    env, raw = wrapped(source(body + "\nreturn 'never shown', True, True")), RoomEnv(6)
    results = play(env)
    assert [outcome(step) for step in results] == [outcome(step) for step in play(raw)]
    for step in results[:2]:
        assert step[0] == step[4]["raw_observation"]
        assert reason in step[4]["interface_error"]
        assert [type(violation) for violation in step[4]["violations"]] == [Violation]
    assert sum(entry.level == "violation" and reason in entry.message for entry in env.log) >= 2


def test_a_caught_refusal_is_still_a_violation():
    env = wrapped(
        source("try:\n    env.step(['drop book 1'])\nexcept Exception as error:\n    return str(error), False, False")
    )
    env.reset(options={"task": TASK})
    shown, _, _, _, info = env.step("take mug 1")
    assert shown == NOT_ALLOWED
    assert info["interface_error"] == ""
    assert info["violations"] == (Violation(action="drop book 1", reason=NOT_ALLOWED),)


def test_stepping_after_the_end_is_a_violation():
    code = "obs, _, done, _ = env.step([agent_action])\nif done[0]:\n    env.step(['drop mug 1'])\n"
    env = wrapped(source(code + "return obs[0], False, False"))
    results = play(env)
    assert [len(step[4]["violations"]) for step in results] == [0, 0, 1]
    assert results[-1][4]["violations"][0].reason == "the episode is over"
    assert outcome(results[-1]) == (1.0, True, False, 1.0, True)


@pytest.mark.parametrize(("step_limit", "last"), [(None, (True, False)), (2, (False, True))])
def test_a_look_after_the_end_repeats_the_last_answer_and_keeps_the_text(step_limit, last):
    body = "env.step([agent_action])\nseen, _, _, _ = env.step(['look'])\n"
    code = source(body + "return 'seen: ' + seen[0], False, False")
    results = play(wrapped(code, step_limit=step_limit) if step_limit else wrapped(code))
    shown, _, terminated, truncated, info = results[-1]
    assert (terminated, truncated) == last
    assert shown == f"seen: {info['raw_observation']}"
    assert (info["violations"], info["interface_error"]) == ((), "")


@pytest.mark.parametrize("top", ["_align_env.step(['look'])", ""])
def test_the_engine_cannot_be_used_before_the_first_turn(top):
    env = wrapped(source(rules="_align_env.step(['look'])\nreturn 'x'", top=top))
    _, info = env.reset(options={"task": TASK})
    assert (info["rules"], info["engine_calls"]) == ("", 0)
    assert "only be called from WrapStep" in info["interface_error"]
    assert info["violations"][0].action == "look"


# ---------------------------------------------------------------- who decides


def test_a_claimed_reward_or_end_is_ignored_and_written_down():
    env = wrapped(source("obs, _, _, _ = env.step([agent_action])\nreturn obs[0], True, True"))
    results = play(env)
    assert [outcome(step) for step in results] == [outcome(step) for step in play(RoomEnv(6))]
    forged = [(entry.turn, entry.message) for entry in env.log if entry.level == "forged"]
    assert forged == [(turn, "claimed reward and done against the environment") for turn in (1, 2)]


def test_a_denied_end_ends_the_episode_all_the_same():
    env = wrapped(source("env.step([agent_action])\nreturn 'go on', False, False"))
    results = play(env)
    assert results[-1][0] == "go on"
    assert outcome(results[-1]) == (1.0, True, False, 1.0, True)
    assert not any(entry.level == "forged" for entry in env.log)


def test_the_step_limit_holds_for_an_interface_that_never_acts():
    results = play(wrapped(source("return 'no', False, False"), step_limit=4))
    assert len(results) == 4
    assert (results[-1][2], results[-1][3]) == (False, True)


# ---------------------------------------------------------------- failures


def test_one_failure_costs_one_fallback():
    env = wrapped(
        source("env.n = getattr(env, 'n', 0) + 1\nif env.n == 2:\n    {}['gone']" + "\nreturn str(env.n), 0, 0")
    )
    env.reset(options={"task": TASK})
    shown = [env.step("look") for _ in range(3)]
    assert [step[0] for step in shown] == ["1", shown[1][4]["raw_observation"], "3"]
    assert [step[4]["interface_error"] for step in shown] == ["", "line 8: KeyError: gone", ""]
    assert [entry for entry in env.log if entry.level == "fallback"] == [(2, "fallback", "line 8: KeyError: gone")]


def test_a_failure_after_the_action_does_not_repeat_it():
    env = wrapped(source("env.step([agent_action])\nraise ValueError('late')"))
    assert [outcome(step) for step in play(env)] == [outcome(step) for step in play(RoomEnv(6))]
    assert play(env)[-1][4]["engine_calls"] == len(WINNING)


def test_a_lost_session_is_replaced_and_after_three_the_interface_is_bypassed():
    env = wrapped(
        source("if agent_action == 'go to study':\n    'a' * (1 << 40)\nreturn 'shown', False, False"),
    )
    env.reset(options={"task": TASK})
    seen = []
    for action in ("look", "go to study", "look", "go to study", "go to study", "look"):
        shown, _, _, _, info = env.step(action)
        seen.append((shown == "shown", info["interface_error"].partition(" (")[0]))
    full = "line 7: the interface used too much memory"
    assert [spoke for spoke, _ in seen] == [True, False, True, False, False, False]
    assert [error for _, error in seen[1:4]] == [full, "", full]
    assert seen[5][1] == f"bypassed after 3 lost sessions; the last: {full}"
    assert [entry.level for entry in env.log][-1] == "bypassed"
    env.reset(options={"task": TASK})
    assert env.step("look")[0] == "shown"


def test_an_interface_that_does_not_load_is_bypassed_by_name():
    env = wrapped(source(top="import socket"))
    _, info = env.reset(options={"task": TASK})
    assert (
        info["interface_error"] == "the interface does not load: line 1: ModuleNotFoundError: No module named 'socket'"
    )
    results = play(env)
    assert all(step[4]["interface_error"].startswith("the interface does not load") for step in results)
    assert outcome(results[-1]).won


def test_failing_rules_leave_the_feedback_on():
    env = wrapped(source("return 'fed back', False, False", rules="return task['x']"))
    shown, info = env.reset(options={"task": TASK})
    assert shown == info["raw_observation"]
    assert "TypeError" in info["interface_error"]
    assert env.step("look")[0] == "fed back"


def test_a_broken_engine_is_not_the_interfaces_fault():
    class Broken(RoomEnv):
        def _act(self, action: str) -> EngineState:
            raise EngineError("the engine broke")

    env = AlignWrapper(Broken(), interface(HELPFUL))
    env.reset(options={"task": TASK})
    with pytest.raises(EngineError, match="the engine broke"):
        env.step("take mug 1")


# ---------------------------------------------------------------- construction and gymnasium


def test_it_wraps_text_environments_only():
    with pytest.raises(UsageError, match="text environment"):
        AlignWrapper(gym.make("CartPole-v1"), identity(CONTRACT))


def test_an_interface_fits_by_its_calls_and_not_by_the_name_of_its_environment():
    renamed = CONTRACT.model_copy(update={"environment": "alfworld"})
    wrapped = AlignWrapper(RoomEnv(), identity(renamed))
    assert wrapped.reset(options={"task": TASK})[0].startswith("You are in the kitchen.")
    with pytest.raises(InterfaceError, match="does not fit room: it calls"):
        AlignWrapper(RoomEnv(), identity(CONTRACT.model_copy(update={"step_layout": "single"})))


ODD_ARGUMENTS = ("env", "weather", "agent_action", "logger")
KNOWN = "a contract cannot have the argument 'weather'; known: env, logger, init_obs, task, agent_action, "


def test_a_contract_whose_arguments_nobody_can_pass_is_refused_before_the_first_episode():
    contract = CONTRACT.model_copy(update={"wrap_step_args": ODD_ARGUMENTS})
    with pytest.raises(InterfaceError, match=f"^{KNOWN}"):
        AlignWrapper(RoomEnv(contract=contract), interface(identity_source(contract), contract))


def test_source_that_cannot_run_is_refused_with_its_line():
    with pytest.raises(InterfaceError, match="line 6: the sandbox cannot run a generator function"):
        wrapped(source("yield 1"))


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_gymnasiums_own_check_passes():
    env = wrapped(HELPFUL, step_limit=20)
    check_env(env, skip_render_check=True)


class Abroad(RoomEnv):
    """Speaks in other letters, but only in its answers."""

    def _carry_out(self, action: str) -> str:
        return f"Où? 左 {super()._carry_out(action)}"


def test_characters_of_the_environment_pass_and_others_of_an_interface_do_not():
    body = "obs, _, done, info = env.step([agent_action])\nreturn obs[0] + ' ù 左 右', info['won'][0], done[0]"
    env = AlignWrapper(Abroad(), interface(source(body)))
    env.reset(options={"task": TASK})
    plain = Abroad()
    plain.reset(options={"task": TASK})
    assert env.step("look")[0] == plain.step("look")[0] + " ù 左 "


def test_typographic_characters_are_made_plain_and_others_dropped():
    env = wrapped(source("return '“it’s” → done… • ünïcode \\x00\\r\\u202e日本', False, False", rules="return 'x – y'"))
    shown, info = env.reset(options={"task": TASK})
    assert info["rules"] == "x - y"
    assert env.observation_space.contains(shown)
    observation = env.step("look")[0]
    assert observation == '"it\'s" -> done... * ncode '
    assert env.observation_space.contains(observation)


# ---------------------------------------------------------------- several episodes at once


def test_episodes_on_threads_do_not_meet():
    """Each thread counts its own turns in its own interface."""
    text = source("env.n = getattr(env, 'n', 0) + 1\nenv.step([agent_action])\nreturn f'{task} {env.n}', False, False")

    def last_texts(task: str) -> list[str]:
        env = wrapped(text, step_limit=15)
        texts = []
        for _ in range(3):
            env.reset(options={"task": task})
            texts.append([env.step("look")[0] for _ in range(15)][-1])
        env.close()
        return texts

    goals = {
        "room/mug-to-study": "bring the mug 1 to the study",
        "room/book-to-kitchen": "bring the book 1 to the kitchen",
    }
    tasks = list(goals) * 3
    with ThreadPoolExecutor(len(tasks)) as pool:
        assert list(pool.map(last_texts, tasks)) == [[f"{goals[task]} 15"] * 3 for task in tasks]


def test_one_thread_can_step_several_episodes_in_turn():
    envs = gym.vector.SyncVectorEnv([lambda: wrapped(HELPFUL, step_limit=20)] * 4)
    envs.reset(seed=0, options={"task": TASK})
    for action in WINNING:
        observations, rewards, _, _, _ = envs.step([action] * 4)
    assert list(rewards) == [1.0] * 4
    assert set(observations) == {"You put down the mug 1."}
    envs.close()
