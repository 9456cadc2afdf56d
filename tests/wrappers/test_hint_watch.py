"""Hints that do not come true are withheld: in circles, after refusals, for any interface; right ones stay."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import align_echo
from align_echo.base.commands import commands_in
from align_echo.interface.contract import load_interface, save_interface
from align_echo.interface.hints import HintCount, below_bar, count_hints, merged, silenced_by
from align_echo.rollout.batches import run_episode, run_tasks
from align_echo.rollout.session import Session
from align_echo.types import AgentReply, AgentView, HintEvent, Step, Trajectory
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.hint_watch import was_accepted
from align_echo.wrappers.text_env import EngineState
from tests import annex_env
from tests.align.room_world import SPEC as ROOM
from tests.annex_env import AnnexEnv
from tests.play import TASK, interface, source
from tests.room_env import TASK_IDS, MuteEnv, RoomEnv, instead_of
from tests.ticket_env import Desk

ADDED = """
obs, reward, done, info = env.step([agent_action])
text = HINTS.get(agent_action, "") if info["won"][0] is False and obs[0] == "Nothing happens." else ""
return (obs[0] + " " + text).strip(), info["won"][0], done[0]
"""
KEPT_BACK = """
if agent_action in HINTS:
    return HINTS[agent_action], False, False
obs, reward, done, info = env.step([agent_action])
return obs[0], info["won"][0], done[0]
"""
ALWAYS = ADDED.replace('if info["won"][0] is False and obs[0] == "Nothing happens." else ""', "")

CIRCLE = {"sing": "You need to `dance` first.", "dance": "You need to `sing` first."}
RIGHT = {
    "drop mug 1": "You do not hold it. You have to take mug 1 first.",
    "take mug 1": "It is out of reach: go to kitchen first.",
}


def made(hints: dict[str, str], body: str = ADDED) -> Any:
    return interface(source(body, top=f"HINTS = {hints!r}"))


def talk(env: RoomEnv, hints: dict[str, str], actions: list[str], body: str = ADDED, **options: Any) -> list[Any]:
    """(what is shown, hints) of each turn; the actions are the agent's own."""
    wrapped = AlignWrapper(env, made(hints, body), **options)
    wrapped.reset(options={"task": TASK})
    turns = []
    for action in actions:
        shown, _, _, _, info = wrapped.step(action)
        turns.append((shown, info.get("hints", ())))
    wrapped.close()
    return turns


class Obedient:
    """Does what it is told, and then what it wanted before: its own list of actions, again and again."""

    name = "obedient"

    def __init__(self, *own: str) -> None:
        self._own = own

    def act(self, view: AgentView) -> AgentReply:
        turns = view.turns
        orders = commands_in(turns[-1].observation, turns[-1].action or "") if turns else []
        own = [turn for turn in turns if turn.action in self._own]
        action = orders[0].text if orders else self._own[min(len(own), 999) % len(self._own)]
        return AgentReply(text=action, action=action)


def obeyed(trajectory: Trajectory) -> int:
    """Turns on which the agent was told what to do."""
    return sum(bool(commands_in(step.observation, step.action or "")) for step in trajectory.steps)


@pytest.mark.parametrize(
    ("env", "body"),
    [(RoomEnv, ADDED), (RoomEnv, KEPT_BACK), (RoomEnv, ALWAYS), (MuteEnv, KEPT_BACK), (MuteEnv, ALWAYS)],
)
def test_an_agent_that_obeys_everything_is_sent_in_no_circle(env, body):
    wrapped = AlignWrapper(env(30), made(CIRCLE, body))
    trajectory = run_episode(wrapped, Obedient("sing"), TASK, split="test")
    assert obeyed(trajectory) <= 3
    assert trajectory.steps[-1].observation == trajectory.steps[-1].raw_observation
    free = run_episode(AlignWrapper(env(30), made(CIRCLE, body), retract=False), Obedient("sing"), TASK, split="test")
    assert obeyed(free) == 30


def test_a_circle_of_steps_that_are_taken_is_left():
    hints = {"sing": "Go to study first.", "go to study": "Try `go to kitchen`.", "go to kitchen": "Try `go to study`."}
    trajectory = run_episode(AlignWrapper(RoomEnv(40), made(hints, ALWAYS)), Obedient("sing"), TASK, split="test")
    assert obeyed(trajectory) <= 5


def test_a_step_that_never_helps_is_not_asked_for_again():
    shown = [text for text, _ in talk(RoomEnv(), {"sing": "You must look first."}, ["sing", "look", "sing", "sing"])]
    assert shown == ["Nothing happens. You must look first.", shown[1], "Nothing happens.", "Nothing happens."]


def test_what_was_refused_may_be_asked_for_once_something_was_done_in_between():
    hints = {"drop mug 1": "The walls are white.", "hum": "You need to drop mug 1 first."}
    *_, (shown, _) = talk(RoomEnv(), hints, ["drop mug 1", "take mug 1", "hum"])
    assert shown == "Nothing happens. You need to drop mug 1 first."
    *_, (shown, _) = talk(RoomEnv(), hints, ["drop mug 1", "hum"])
    assert shown == "Nothing happens.", "it cannot be done as things are"


@pytest.mark.parametrize("env", [RoomEnv, MuteEnv])
def test_hints_that_are_right_lead_to_the_goal_untouched(env):
    own = ["go to study", "drop mug 1", "take mug 1", "go to kitchen", "take mug 1", "go to study", "drop mug 1"]
    turns = talk(env(), RIGHT, own)
    assert turns == [(shown, hints) for shown, hints in talk(env(), RIGHT, own, retract=False)]
    if env is RoomEnv:
        assert "You have to take mug 1 first." in turns[1][0]
        assert "go to kitchen first" in turns[2][0]
    assert not any(hint.came_true is False or hint.silenced for _, hints in turns for hint in hints)


def test_what_came_of_each_hint_is_told():
    actions = ["go to study", "take mug 1", "go to kitchen", "take mug 1"]
    _, (_, first), (_, second), (_, third) = talk(RoomEnv(), RIGHT, actions)
    rule = "it is out of reach: go to _ first."
    assert first == (HintEvent(rule=rule, fired=True),)
    assert second == (HintEvent(rule=rule, followed=True),)
    assert third == (HintEvent(rule=rule, came_true=True),)


def test_a_refused_command_silences_its_rule_and_no_other():
    hints = {"sing": "Try `dance`. The walls are white.", "hum": "Try `go to study`.", "dance": ""}
    turns = talk(RoomEnv(), hints, ["sing", "dance", "sing", "hum"])
    assert turns[0][0] == "Nothing happens. Try `dance`. The walls are white."
    assert turns[1][1] == (HintEvent(rule="try `dance`.", followed=True, came_true=False, silenced=True),)
    assert turns[2][0] == "Nothing happens. The walls are white."
    assert turns[3][0] == "Nothing happens. Try `go to study`."


def test_a_list_of_forms_is_no_promise():
    hints = {"sing": "The world knows only these forms: `look`, `dance`, `take X`."}
    turns = talk(RoomEnv(), hints, ["sing", "dance", "sing"])
    assert turns[0][0] == turns[2][0]


def test_the_placebo_is_that_of_what_is_shown():
    placebo = made({"sing": "Try `dance`."}).model_copy(update={"placebo": True})
    wrapped = AlignWrapper(RoomEnv(), placebo)
    wrapped.reset(options={"task": TASK})
    shown = [wrapped.step(action)[0] for action in ("sing", "dance", "sing")]
    assert shown == ["Nothing happens. That is how things are now.", "Nothing happens.", "Nothing happens."]


def test_reward_and_end_stay_the_environments():
    hints = {"take mug 1": "You need to `dance` first.", "dance": "You need to `take mug 1` first."}
    plain = RoomEnv()
    plain.reset(options={"task": TASK})
    wrapped = AlignWrapper(RoomEnv(), made(hints, ALWAYS))
    wrapped.reset(options={"task": TASK})
    for action in ("take mug 1", "dance", "take mug 1", "go to study", "drop mug 1"):
        assert wrapped.step(action)[1:4] == plain.step(action)[1:4]


# ---------------------------------------------------------------- which hints a failure withholds

HOLD = """
obs, reward, done, info = env.step([agent_action])
text = obs[0]
if agent_action.startswith("drop ") and "down" not in text:
    text += f" You need to `hold {agent_action[5:]}` first."
return text, info["won"][0], done[0]
"""


def told(thing: str) -> str:
    return f"You need to `hold {thing}` first."


def failed_hints(*things: str) -> list[str]:
    """The actions of an agent who drops things, and obeys a hint that never comes true."""
    return [action for thing in things for action in (f"drop {thing}", f"hold {thing}")]


def last_shown(env: RoomEnv, actions: list[str], **options: Any) -> str:
    return str(talk(env, {}, actions, HOLD, **options)[-1][0])


class EchoEnv(RoomEnv):
    """The same rooms, where a refusal repeats what the agent said."""

    def _carry_out(self, action: str) -> str:
        answer = super()._carry_out(action)
        return f"There is no way to {action} here." if answer == "Nothing happens." else answer


class PageEnv(EchoEnv):
    """The same, where an answer ends with everything that was said so far."""

    def _load(self, task_id: str) -> EngineState:
        self._said: list[str] = []
        return super()._load(task_id)

    def _carry_out(self, action: str) -> str:
        self._said.append(action)
        return f"{super()._carry_out(action)} So far: {'; '.join(self._said)}."


@pytest.mark.parametrize("env", [RoomEnv, EchoEnv, PageEnv])
def test_a_failure_withholds_the_hint_about_this_object_alone(env):
    assert told("mug 1") not in last_shown(env(), [*failed_hints("mug 1"), "drop mug 1"])
    assert told("study") in last_shown(env(), [*failed_hints("mug 1"), "drop study"])


@pytest.mark.parametrize("env", [RoomEnv, EchoEnv, PageEnv])
def test_failures_on_two_objects_that_the_engine_named_withhold_the_rule(env):
    assert told("kitchen") not in last_shown(env(), [*failed_hints("mug 1", "study"), "drop kitchen"])
    assert told("kitchen") in last_shown(env(), [*failed_hints("mug 1", "mug 1", "MUG  1"), "drop kitchen"])


@pytest.mark.parametrize("env", [RoomEnv, EchoEnv, PageEnv])
def test_failures_on_what_the_engine_never_named_condemn_no_rule(env):
    absent = failed_hints("unicorn 1", "mug 10", "kitch", "book 1")  # the book is in the room that was not seen
    assert told("study") in last_shown(env(40), [*absent, "look", "drop study"])
    assert told("kitchen") in last_shown(env(40), [*absent, *failed_hints("study"), "drop kitchen"])
    assert told("unicorn 1") not in last_shown(env(40), [*absent, "drop unicorn 1"])


def test_a_thing_is_named_by_any_text_of_the_engine_before():
    seen = ["go to study", "go to kitchen"]
    assert told("kitchen") not in last_shown(RoomEnv(), [*seen, *failed_hints("book 1", "mug 1"), "drop kitchen"])
    looks = HOLD.replace("text = obs[0]", "text = obs[0]; env.step(['inventory'])")
    carried = ["take mug 1", "go to study", *failed_hints("book 1", "kitchen"), "drop study"]
    assert told("study") not in talk(RoomEnv(), {}, carried, looks)[-1][0]


def test_a_record_condemns_a_rule_only_for_objects_that_the_engine_named():
    def record(*things: str) -> tuple[HintCount, ...]:
        wrapped = AlignWrapper(RoomEnv(40), made({}, HOLD))
        tasks = [[*failed_hints(thing), "look"] for thing in things]
        return count_hints(run_episode(wrapped, Speaker(actions), TASK, split="test") for actions in tasks)

    rule = "you need to `hold _` first."
    assert silenced_by(record(*["mug 1", "study"] * 3)) == {rule}
    assert silenced_by(record("mug 1", *[f"unicorn {number}" for number in range(8)])) == frozenset()
    (count,) = record("mug 1", "unicorn 1")
    assert (count.failed, count.weak) == (2, 1)


def test_one_object_that_fails_again_and_again_says_no_more_than_once():
    stubborn = Speaker([*failed_hints(*["mug 1"] * 9), "look"])
    played = run_episode(AlignWrapper(RoomEnv(40), made({}, HOLD), retract=False), stubborn, TASK, split="test")
    (count,) = count_hints([played])
    assert count.failed > 8
    assert count.failed - count.weak == 1
    assert silenced_by([count]) == frozenset()


class LockedEnv(RoomEnv):
    """The same rooms, where things far away are refused in other words than things that are locked."""

    def _carry_out(self, action: str) -> str:
        if action == "take book 1" and self._here == "study":
            return "It is locked."
        return super()._carry_out(action)

    def _admissible(self) -> tuple[str, ...]:
        return tuple(action for action in super()._admissible() if action != "take book 1")


def test_a_refusal_in_other_words_is_no_failure_of_the_hint_before():
    hints = {"take book 1": "You need to `go to study` first."}
    turns = talk(LockedEnv(), hints, ["take book 1", "go to study", "take book 1", "go to kitchen", "take book 1"])
    assert [hint.came_true for _, shown in turns for hint in shown] == [None, None, None]
    assert turns[-1][0] == "Nothing happens. You need to `go to study` first."


GO = """
obs, reward, done, info = env.step([agent_action])
text = obs[0]
if text == "Nothing happens." and " from " in agent_action:
    text += f" You need to `go to {agent_action.partition(' from ')[2]}` first."
return text, info["won"][0], done[0]
"""


def test_an_instance_is_what_the_agent_was_about_too():
    vain = ["take book 1 from study", "go to study", "take book 1 from study", "go to kitchen"]
    turns = [shown for shown, _ in talk(RoomEnv(), {}, [*vain, "take mug 1 from study", vain[0]], GO)]
    hint = "You need to `go to study` first."
    assert [hint in text for text in turns] == [True, False, False, False, True, False]


class Speaker:
    """Says what it was given, and then the last of it again."""

    name = "speaker"

    def __init__(self, actions: list[str]) -> None:
        self._actions = actions

    def act(self, view: AgentView) -> AgentReply:
        action = self._actions[min(len(view.turns), len(self._actions) - 1)]
        return AgentReply(text=action, action=action)


def test_without_retract_every_hint_is_shown_and_failures_are_counted():
    spec = instead_of(dataclasses.replace(ROOM, step_limit=40))
    hold, actions = made({}, HOLD), [*failed_hints("mug 1", "study"), "drop mug 1"]

    def played(**options: Any) -> tuple[str, Any]:
        env = align_echo.make(spec, interface=hold, **options)
        env.reset(options={"task": TASK})
        turns = [env.step(action) for action in actions]
        return turns[-1][0], turns[1][4]["hints"][0].came_true

    assert played() == ("Nothing happens.", False)
    assert played(retract=False) == (f"Nothing happens. {told('mug 1')}", False)
    with Session.open(spec, interface=hold, retract=False, agent="mine") as session:
        session.reset(TASK)
        assert told("mug 1") in [session.step(action) for action in actions][-1].observation
    vector = align_echo.make_vec(spec, n=2, interface=hold, retract=False)
    vector.reset()
    assert [told("mug 1") in text for text in [vector.step([action] * 2)[0] for action in actions][-1]] == [True, True]


# ---------------------------------------------------------------- across episodes


def test_a_rule_is_silenced_from_the_start_once_its_record_is_below_the_bar():
    def count(right: int, wrong: int) -> HintCount:
        return HintCount(rule="try `dance`.", fired=9, followed=right + wrong, came_true=right, failed=wrong)

    assert [below_bar(count(*pair)) for pair in [(0, 4), (0, 5), (4, 1), (45, 5), (40, 20)]] == [
        False, True, False, False, True,
    ]  # fmt: skip
    bad = made({"sing": "Try `dance`."}).model_copy(update={"record": (count(0, 5),)})
    wrapped = AlignWrapper(RoomEnv(), bad)
    wrapped.reset(options={"task": TASK})
    shown, _, _, _, info = wrapped.step("sing")
    assert shown == "Nothing happens."
    assert info["hints"] == (HintEvent(rule="try `dance`.", silenced=True),)
    assert bad.label.endswith("-1-silenced")


def test_the_record_is_stored_beside_the_interface_and_goes_with_its_source(tmp_path):
    record = (HintCount(rule="try `dance`.", fired=6, followed=6, failed=6),)
    path = save_interface(made(CIRCLE).model_copy(update={"record": record}), tmp_path, "mine")
    assert load_interface(path).record == record
    assert silenced_by(record) == {"try `dance`."}
    path.write_text(path.read_text() + "\n# edited\n")
    assert load_interface(path).record == ()


def test_counts_do_not_depend_on_the_order_in_which_workers_finish():
    def played(workers: int) -> list[Trajectory]:
        tasks = [TASK_IDS[number % 2] for number in range(6)]
        agent = Obedient("sing", "look")
        return run_tasks(
            lambda: AlignWrapper(RoomEnv(8), made(CIRCLE)), agent, tasks, split="test", workers=workers
        )

    single, several = played(1), played(3)
    assert [episode.steps for episode in single] == [episode.steps for episode in several]
    counts = count_hints(single)
    assert counts == count_hints(several[::-1]) == merged(count_hints(single[:2]), count_hints(single[2:]))
    dance = next(count for count in counts if count.rule == "you need to `dance` first.")
    assert (dance.followed, dance.failed, dance.silenced) == (6, 6, 6)


def test_steps_of_older_runs_are_read():
    step = Step(reply="look", action="look", observation="", raw_observation="")
    old = {name: value for name, value in step.model_dump().items() if name != "hints"}
    assert Step.model_validate(old) == step


# ---------------------------------------------------------------- an engine that lists nothing

SCORED = """
obs, _, done, info = env.step(agent_action)
return (obs + " " + HINTS.get(agent_action, "")).strip(), done, info["score"]
"""


@pytest.mark.parametrize(
    ("hints", "end"),
    [
        ({"sing": "Say `hum` first.", "hum": "Say `sing` first."}, "Eh?"),
        ({"sing": "You have to peer first."}, "Eh?"),
        ({"sing": "Write `peer` instead."}, "Eh? Write `peer` instead."),
    ],
)
def test_where_nothing_else_tells_the_engines_answers_do(hints, end):
    made_for = interface(source(SCORED, top=f"HINTS = {hints!r}"), annex_env.CONTRACT)
    wrapped = AlignWrapper(AnnexEnv(30), made_for)
    trajectory = run_episode(wrapped, Obedient("sing"), annex_env.TASK_IDS[0], split="test")
    assert [step.observation for step in trajectory.steps if step.action == "sing"][-1] == end


TURNS = [
    (["open #1"], "", False),
    (["open {0}"], "", True),
    (["queue"], "", None),
    (["open {0}", "tag {0} wrong"], "", False),
    (["open {0}", "tag {0} {1}", "close {0}"], "won", True),
    (["open {0}", "tag {0} {2}", "close {0}"], "lost", None),
]


@pytest.mark.parametrize(("actions", "end", "wanted"), TURNS)
def test_an_action_took_effect_was_refused_or_neither_is_known(actions: list[str], end: str, wanted: bool | None):
    """A page that stays and an end without a gain say nothing."""
    desk = align_echo.TextEnvironment(Desk, step_limit=9, action_format=Desk.format, is_invalid=Desk.refusal.__eq__)
    env = desk.spec("desk").make_env(split="train", data_root=None, step_limit=9)
    env.reset(options={"task": "0"})
    plain = Desk()
    plain.reset(seed=0)
    about = plain.about[plain.target]
    other = next(topic for topic in Desk.topics if topic != about)
    for action in actions:
        said, before = action.format(plain.target, about, other), env.state
        env.step(said)
    assert (env.state.won, env.over) == (end == "won", end != "")
    assert was_accepted(env, before, said, env.state.observation, None) is wanted
