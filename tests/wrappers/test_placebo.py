"""An interface played as its own placebo: the same calls on the same turns, and nothing said."""

from __future__ import annotations

import re

from align_echo.agents.novices import make_novice
from align_echo.agents.parsing import command_in
from align_echo.interface.contract import Interface, identity, load_interface
from align_echo.rollout.batches import run_episode
from align_echo.types import AgentReply, AgentView, Trajectory
from align_echo.wrappers.align_wrapper import SENTENCE, AlignWrapper, neutral_observation, neutral_rules
from align_echo.wrappers.catalogue import environment, environments, make, tasks
from tests.annex_env import AnnexEnv
from tests.play import TASK, WINNING, interface, source
from tests.room_env import CONTRACT, RoomEnv

TALKATIVE = source(
    """
    env.step(["look"])
    if agent_action == "fly":
        return "You cannot fly. Try `go to study`.", False, False
    if agent_action == "raise":
        raise ValueError("no")
    obs, reward, done, info = env.step([agent_action])
    if obs[0] == "Nothing happens.":
        return obs[0] + " You are not where the mug 1 is.", False, False
    return obs[0], info["won"][0], done[0]
    """,
    rules="return '1. Go to a room first.\\n\\n2. Then take what is there, one thing at a time; put it elsewhere.'",
)


def placebo(text: str) -> Interface:
    return interface(text).model_copy(update={"placebo": True})


def shown(made: Interface | None, actions: tuple[str, ...]) -> list[tuple[str, str | None, int, str]]:
    """What the agent is shown, what the engine said, engine calls so far and the interface's error, by turn."""
    env = RoomEnv() if made is None else AlignWrapper(RoomEnv(), made)
    first, info = env.reset(options={"task": TASK})
    seen = [(first, info["raw_observation"], info["engine_calls"], info.get("interface_error", ""))]
    for action in actions:
        text, _, _, _, info = env.step(action)
        seen.append((text, info["raw_observation"], info["engine_calls"], info.get("interface_error", "")))
    env.close()
    return seen


def test_it_speaks_where_the_interface_does_and_says_nothing():
    actions = ("take book 1", "fly", "raise", "look", "take mug 1")
    turns, silent = shown(interface(TALKATIVE), actions), shown(placebo(TALKATIVE), actions)
    assert [turn[1:] for turn in silent] == [turn[1:] for turn in turns]  # the same engine calls, the same errors
    raw = [turn[1] for turn in turns]
    assert [turn[0] for turn in silent[1:]] == [f"Nothing happens. {SENTENCE}", SENTENCE, *raw[3:]]
    assert silent[3][3] == "line 10: ValueError: no"


def test_rules_are_neutral_and_as_long():
    first, silent = (shown(made, ())[0] for made in (interface(TALKATIVE), placebo(TALKATIVE)))
    rules = first[0].removesuffix(f"\n\n{first[1]}")
    neutral = silent[0].removesuffix(f"\n\n{silent[1]}")
    assert [len(line) for line in neutral.split("\n")] == [len(line) for line in rules.split("\n")]
    words = set(re.findall(r"[a-z]+", neutral.lower()))
    assert words & {"go", "room", "take", "put", "first", "then", "there"} == set()


def test_neutral_rules_of_any_length_are_whole_words_and_dots():
    for length in range(700):
        neutral = neutral_rules("x" * length)
        assert len(neutral) == length
        assert neutral == "." * length or re.fullmatch(r"Things( .*[a-z,.])?\.*", neutral)


def test_info_and_the_first_observation_agree():
    env = AlignWrapper(RoomEnv(), placebo(TALKATIVE))
    first, info = env.reset(options={"task": TASK})
    assert first == f"{info['rules']}\n\n{info['raw_observation']}"
    assert "Go to a room" not in first


def test_that_of_an_interface_without_words_is_no_interface():
    nothing = identity(CONTRACT).model_copy(update={"placebo": True})
    actions = ("look", "dance", "fly", *WINNING)
    assert [turn[:2] for turn in shown(nothing, actions)] == [turn[:2] for turn in shown(None, actions)]


class Odd(RoomEnv):
    """Says a typographic quote, which interfaces may not add, and more than an interface may return."""

    def _carry_out(self, action: str) -> str:
        return f"\u2019tis {super()._carry_out(action)}" if action != "read" else "word " * 5_000


def test_the_environments_own_characters_pass_and_what_is_too_long_is_cut():
    nothing = identity(CONTRACT)
    for made in (nothing, nothing.model_copy(update={"placebo": True})):
        env = AlignWrapper(Odd(), made)
        env.reset(options={"task": TASK})
        assert env.step("dance")[0] == "\u2019tis Nothing happens."
        assert env.step("read")[0] == ("word " * 4_000)


def test_the_half_that_is_switched_off_stays_off():
    no_rules = placebo(TALKATIVE).model_copy(update={"use_rules": False})
    no_feedback = placebo(TALKATIVE).model_copy(update={"use_feedback": False})
    assert shown(no_rules, ())[0][0] == shown(None, ())[0][0]
    assert shown(no_feedback, ("fly",))[1][0] == "Nothing happens."


def test_trajectories_name_it():
    class Walker:
        name = "walker"

        def act(self, view: AgentView) -> AgentReply:
            return AgentReply(text="look", action="look")

    made = placebo(TALKATIVE)
    played = run_episode(AlignWrapper(RoomEnv(), made), Walker(), TASK, split="test")
    trajectory = run_episode(AlignWrapper(RoomEnv(), interface(TALKATIVE)), Walker(), TASK, split="test")
    name = f"test@{made.content_hash}"
    assert (played.interface, trajectory.interface) == (f"{name}-placebo", name)
    assert played.rules == neutral_rules(trajectory.rules)


def _actions_words(text: str) -> set[str]:
    """Words of action templates: all that is no placeholder and no prose."""
    return set(re.findall(r"[a-z]+", re.sub(r"\{[^}]*\}", " ", text.lower())))


def test_the_sentence_holds_no_word_of_any_environments_actions():
    words = set(re.findall(r"[a-z]+", SENTENCE.lower()))
    for spec in environments().values():
        command = command_in(spec.action_format)
        lines = [line for line in spec.action_format.splitlines() if "|" in line or "{" in line]
        forms = "\n".join(lines) if command is None else command[0]
        assert words & _actions_words(forms) == set(), spec.name
    for env in (RoomEnv(), AnnexEnv()):
        env.reset(seed=0)
        offered = env.offered()
        listed = env.info("").get("admissible_actions", ()) + (offered.templates + offered.names if offered else ())
        assert words & _actions_words(" ".join(listed)) == set()
    assert not re.search(r"[`\"'\d]", SENTENCE)


def test_in_alfworld_it_differs_from_the_engine_by_the_sentence_alone():
    spec = environment("alfworld")
    probe = load_interface("alfworld/probe", spec.contract)
    silent = probe.model_copy(update={"placebo": True})
    task = tasks("alfworld", split="valid_unseen")[0]

    def play(made: Interface) -> Trajectory:
        env = make("alfworld", split="valid_unseen", interface=made)
        played = run_episode(env, make_novice("alfworld", "novice", seed=0), task, split="valid_unseen")
        env.close()
        return played

    spoken_to, played = play(probe), play(silent)
    assert len(played.rules) == len(spoken_to.rules) > 0
    spoken = [step for step in played.steps if step.observation != step.raw_observation]
    assert spoken
    for step in spoken:
        expected = SENTENCE if step.raw_observation is None else f"{step.raw_observation} {SENTENCE}"
        assert step.observation == expected
    with_words = make("alfworld", split="valid_unseen", interface=probe)
    with_words.reset(seed=0, options={"task": task})
    for step in played.steps:  # the agent's actions again, before the interface itself: it speaks on the same turns
        assert step.action is not None
        again, *_, info = with_words.step(step.action)
        assert (again != info["raw_observation"]) == (step in spoken)
    with_words.close()


def test_white_space_is_no_speech():
    assert neutral_observation("You see a door.", "You see a door.\n") == "You see a door.\n"
