"""The study of worlds of other packages: what it calls true, what its scripts heed, and that it measures a world."""

from __future__ import annotations

import json
import random
import urllib.request
from typing import Any

import gymnasium as gym
import pytest

import align_echo
from align_echo.interface.rules.actions import Form
from align_echo.interface.rules.model import NeedsFirst, RuleSet
from align_echo.interface.rules.runtime import RuleRuntime
from align_echo.prompts import render
from align_echo.types import AgentView, Turn
from studies.foreign.__main__ import main
from studies.foreign.agents import Script, cook_meal, find_command, guess_number, reveal_cell
from studies.foreign.clerk import leave_out_sign, next_call, write_call
from studies.foreign.messages import MessageCount, MessageTrial, count_message
from studies.foreign.proposer import NAME, guess, serve
from tests.desk_env import Desk


class Bell(gym.Env[str, str]):
    """A bell that hears only what is said in brackets: the right one of three words wins."""

    observation_space = gym.spaces.Text(200)
    action_space = gym.spaces.Text(80)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.heard, self.wanted = set[str](), random.Random(seed).choice(("low", "mid", "high"))
        return "A bell hangs here.", {"goal": "ring the bell"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        word = action[1:-1] if action.startswith("[") and action.endswith("]") else ""
        if word not in ("low", "mid", "high"):
            return "What?", 0.0, False, False, {}
        answer = "It rang so before." if word in self.heard else f"It rings {word}."
        self.heard.add(word)
        return answer, float(word == self.wanted), word == self.wanted, False, {}


BELL = align_echo.TextEnvironment(Bell, step_limit=12, action_format="[low] | [mid] | [high]")
FORMS = tuple(Form(text=word) for word in ("seal", "weigh", "label", "send"))
WEIGH = NeedsFirst(form="send", answers=("Refused: no weight.",), step="label", terms=(), unless=(), text="")


class Stairs(gym.Env[str, str]):
    """Stairs, from the lowest of which no way leads down: the page stays."""

    observation_space = action_space = gym.spaces.Text(80)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.floor = 0
        return "Floor 0.", {"goal": "climb"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.floor = max(0, self.floor + (1 if action == "up" else -1))
        return f"Floor {self.floor}.", 0.0, False, False, {}


def trial(*actions: str, rules: RuleSet | None = None, world: type[gym.Env[str, str]] = Desk) -> MessageTrial:
    """The moment after the last action, at a parcel desk or in another world."""
    env = align_echo.TextEnvironment(world).spec("desk").make_env(split="train", data_root=None, step_limit=50)
    env.reset(options={"task": "1"})
    runtime = RuleRuntime(rules or RuleSet(forms=FORMS), env.state.observation)
    before = env.state
    for action in actions:
        before = env.state
        env.step(action)
        runtime.hear(action, env.state.observation)
    return MessageTrial(env, runtime, before, actions[-1])


def outcome(moment: MessageTrial, message: str) -> dict[str, int]:
    count = MessageCount()
    count_message(count, moment, message, "1")
    return dict(count.counts)


@pytest.mark.parametrize(
    ("actions", "message", "expected"),
    [
        (["send"], "You need to `weigh` first.", "true"),
        (["send"], "It may help to `weigh`.", "true"),
        (["send"], "You need to `label` first.", "false"),  # it works and does not help
        (["seal", "send"], "You need to `weigh` first.", "false"),  # it is too late
        (["post"], "Write `label` instead.", "true"),
        (["post"], "Write `mail` instead.", "false"),
        (["label", "label"], "Nothing changed: `label` has no effect here.", "true"),
        (["label"], "Nothing changed: `label` has no effect here.", "false"),
        (["seal"], "No effect here: seal.", "true"),
        (["seal"], "No effect here: label.", "false"),
        (["seal"], "One more refused action ends the episode.", "untried"),
    ],
)
def test_what_a_message_says_is_true_if_it_is_so_in_a_copy_of_its_state(actions, message, expected):
    assert outcome(trial(*actions), message) == {expected: 1}


def test_a_page_that_stayed_is_no_refusal_where_an_action_leads_to_it():
    assert outcome(trial("down", world=Stairs), "You need to `up` first.") == {"true": 1}
    assert outcome(trial("down", world=Stairs), "You need to `down` first.") == {"false": 1}


def test_an_order_counts_as_false_where_the_messages_after_it_lead_nowhere():
    circle = RuleSet(forms=FORMS, refusals={"send": ("Refused: no weight.",)}, rules=(WEIGH,))
    assert outcome(trial("send", rules=circle), "You need to `label` first.") == {"false": 1}
    weigh = WEIGH.model_copy(update={"step": "weigh"})
    helps = RuleSet(forms=FORMS, refusals={"send": ("Refused: no weight.",)}, rules=(weigh,))
    assert outcome(trial("send", rules=helps), "You need to `label` first.") == {"true": 1}


def test_trying_a_message_leaves_the_state_as_it_was():
    moment = trial("send")
    outcome(moment, "You need to `weigh` first.")
    assert moment.env.step("send")[0] == "Refused: no weight."


def view(*turns: tuple[str, str], opening: str = "") -> AgentView:
    heard = tuple(Turn(reply=action, action=action, observation=text) for action, text in turns)
    return AgentView(task_id="1", action_format="", goal="", rules="", initial_observation=opening, turns=heard)


def test_a_script_heeds_commands_until_they_were_in_vain_three_times():
    said = ("go", "No. `go` fails: you need to `look` first.")
    assert find_command(view(said)) == "look"
    assert find_command(view(said, ("look", "A room."))) == ""
    assert find_command(view(*[said, ("look", "A room.")] * 3, said)) == ""


def test_a_script_leaves_out_what_has_no_effect_on_this_page():
    scripts = [Script("", lambda _: ("left", "right", "up"), seed) for seed in range(9)]
    told = ("left", "A wall. No effect here: up, right.")
    assert {script.act(view(told)).action for script in scripts} == {"left"}
    moved = view(told, ("left", "A door."))
    assert {script.act(moved).action for script in scripts} == {"left", "right", "up"}


def test_scripts_know_their_games():
    assert guess_number(view()) == ["10"]
    assert guess_number(view(("10", "Use brackets."), ("[10]", "The target number is higher."))) == ["15"]
    board = "    0  1\n 0  .  1\n 1  2  .\n"
    assert reveal_cell(view(opening=board)) == ["0 0", "1 1"]
    assert cook_meal(view()) == ["examine cookbook"]
    book = ("examine cookbook", "Ingredients:\n  red onion\n\nDirections:\n  fry the red onion\n  prepare meal\n")
    assert cook_meal(view(book)) == ["take red onion"]
    taken = ("take red onion", "You take the red onion from the shelf.")
    assert cook_meal(view(book, taken)) == ["cook red onion with stove"]
    assert cook_meal(view(book, taken, ("cook red onion with stove", "You fried the red onion."))) == ["prepare meal"]


@pytest.mark.long
def test_the_study_measures_what_an_interface_is_worth(capsys, tmp_path):
    assert main([f"{__name__}:BELL", "--tasks", "10", "--fresh", "10", "--out", str(tmp_path)]) == 0
    *shown, last = capsys.readouterr().out.splitlines()
    result = json.loads(last)
    assert (result["scores"]["none"], result["scores"]["placebo"]) == (0, 0)
    assert 0 < result["gain"]["low"] <= result["gain"]["value"] == result["scores"]["full"]
    assert (result["n"], result["won"]["full"], result["messages"]["false"]) == (10, 10 * result["gain"]["value"], 0)
    assert result["messages"]["true"] > 5
    assert shown[1].split()[1:4] == ["0.000", "0.000", f"{result['scores']['full']:.3f}"]


def test_a_world_that_does_not_exist_is_said_in_the_table(capsys):
    assert main(["gymnasium:Nowhere-v0"]) == 1
    assert "Nowhere" in json.loads(capsys.readouterr().out.splitlines()[-1])["error"]


def test_the_script_in_place_of_a_model_guesses_from_what_a_model_reads():
    system = render(
        "analyzer/hypotheses_system",
        {
            "environment": "bell",
            "action_format": "take {it} | open {it}",
            "signature": "The rules will be told to agents by two functions.",
            "looks": "",
        },
    )
    guesses = json.loads(guess(system, "... <hypotheses> ..."))
    assert {(each["action"], each["step"]) for each in guesses} == {
        ("take {0}", "open {0}"),
        ("open {0}", "take {0}"),
    }
    assert guess(system, "anything else") == "[]"
    with serve() as url, urllib.request.urlopen(f"{url}/models") as answer:
        assert json.load(answer)["data"] == [{"id": NAME}]


def test_a_clerk_sends_a_call_twice_and_goes_on():
    calls = [write_call("get_order", {"order_id": "#W1"}, [leave_out_sign]), write_call("list_all", {}, [])]
    assert json.loads(calls[0])["arguments"] == {"order_id": "W1"}
    turns: list[Turn] = []
    said = []
    for answer in ("Error: no such order", "Error: no such order", "All."):
        said.append(next_call(calls, turns))
        turns.append(Turn(reply="", action=said[-1], observation=answer))
    assert [*said, next_call(calls, turns)] == [calls[0], calls[0], calls[1], "done"]


def test_a_clerk_heeds_a_command_until_its_call_works():
    call = write_call("get_order", {"order_id": "#W1"}, [leave_out_sign])
    told = Turn(reply="", action=call, observation='Error: no. Write `{"name": "get_order", "arguments": {}}` instead.')
    assert next_call([call], [told, told]) == call
    assert next_call([call], [told, Turn(reply="", action='{"name": "get_order"}', observation="Order.")]) == "done"
