"""What an agent meets: turns as they are read, refusals, tools, pages, answers; and the way that the expert knows."""

from __future__ import annotations

from collections import Counter

import pytest

import align_echo
from align_echo.critic.labels import labels
from align_echo.errors import UsageError
from align_echo.rollout.session import base_env
from align_echo.types import AgentView
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.m3tooleval.spec import FAMILIES, is_invalid
from align_echo.wrappers.m3tooleval.tasks import make_task
from tests.conformance.subjects import actions_of, play, play_expert, start

MESSAGE, PLANT, TRADE, TRAVEL = (f"{family}/test-0" for family in list(FAMILIES)[:4])
MAIL = "web_browsing/test-4"


def make(engine: str | None = None, split: str = "test"):
    return base_env(align_echo.make("m3tooleval", split=split, engine=engine))


@pytest.fixture
def env():
    return make()


def answered(env, task: str, *actions: str) -> list[str]:
    start(env, task)
    return [step.observation for step in play(env, actions)]


# ---------------------------------------------------------------- tasks


def test_the_test_split_has_as_many_tasks_of_each_family_as_the_original():
    spec = environment("m3tooleval")
    tasks = align_echo.tasks("m3tooleval", split="test")
    assert Counter(map(spec.task_type, tasks)) == FAMILIES
    training, rest = (align_echo.tasks("m3tooleval", split=split) for split in ("align_train", "align_test"))
    assert Counter(map(spec.task_type, training)) == dict.fromkeys(FAMILIES, 2)
    assert sorted(training + rest) == sorted(tasks)


def test_training_and_test_tasks_share_no_question_and_only_small_answers():
    ids = {split: align_echo.tasks("m3tooleval", split=split) for split in ("train", "test")}
    asked = {split: [make_task(task) for task in tasks] for split, tasks in ids.items()}
    texts = {split: [task.instruction for task in tasks] for split, tasks in asked.items()}
    assert len({*texts["train"], *texts["test"]}) == len(texts["train"]) + len(texts["test"])
    answers = {split: {str(task.expected) for task in tasks} for split, tasks in asked.items()}
    assert all(
        len(answer) < 4 or answer in ("True", "False", "no valid sequence")
        for answer in answers["train"] & answers["test"]
    )


@pytest.mark.parametrize("engine", ["text", "json", "text_strict", "json_strict"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_expert_wins_every_task_within_ten_turns_and_is_never_refused(engine, split):
    env = make(engine, split)
    for task in env.task_ids[:: 7 if split == "train" else 1]:
        start(env, task)
        distance = env.oracle().distance()
        steps = play_expert(env, task)
        assert (len(steps), steps[-1].score) == (distance, 1.0), task
        assert distance <= 10
        assert not any(is_invalid(step.observation) for step in steps), task


# ---------------------------------------------------------------- turns


@pytest.mark.parametrize(
    "action",
    ["view", "", "Thought: hm.", "Action: view End Action Answer: 3", "action: view end action"],
)
def test_a_turn_that_is_neither_or_both_is_refused_and_costs_a_turn(env, action):
    start(env, MAIL)
    observation, reward, terminated, _, info = env.step(action)
    assert observation.startswith("This turn is not valid: it holds ")
    assert (is_invalid(observation), reward, terminated, info["turns"]) == (True, 0.0, False, 1)


def test_of_several_calls_the_first_is_used_with_a_reminder(env):
    two = "Thought: so. Action: string_length, abc End Action Action: string_length, a End Action"
    assert answered(env, MESSAGE, two) == ["3\nNote: you sent more than one action, and only the first was used."]
    (text,) = answered(env, MESSAGE, "Answer: x Answer: y")
    assert text == "The answer is wrong.\nNote: you sent more than one answer, and only the first was used."


def test_a_call_may_be_spaced_in_any_way_and_end_with_the_turn(env):
    texts = answered(
        env, MESSAGE, "Action:caesar_decode,abc  ,  1", "Action: caesar_decode, abc, 1\nEnd Action and more"
    )
    assert texts == ["zab", "zab"]


@pytest.mark.parametrize(
    ("action", "beginning"),
    [
        ("Action: view End Action", "There is no tool named 'view'. The tools are: convert_hex_to_ascii, "),
        ("Action: string_length('abc') End Action", "There is no tool named \"string_length('abc')\"."),
        ("Action: End Action", "There is no tool named ''."),
        ("Action: string_length End Action", "The call failed: string_length cannot take no argument: "),
        (
            "Action: caesar_decode, abc, x End Action",
            "The call failed: caesar_decode cannot take abc, x: 'x' is not a number",
        ),
        (
            "Action: caesar_decode, abc, inf End Action",
            "The call failed: caesar_decode cannot take abc, inf: a number is too",
        ),
        ("Action: convert_hex_to_ascii, xyz End Action", "The call failed: convert_hex_to_ascii cannot take xyz: "),
        ("Action: minimum_value End Action", "The call failed: minimum_value cannot take no argument: "),
    ],
)
def test_what_a_tool_cannot_take_is_answered_and_no_fault(env, action, beginning):
    (text,) = answered(env, MESSAGE, action)
    assert text.startswith(beginning)
    assert is_invalid(text)
    assert env.info(None)["score"] == 0.0


def test_no_text_that_looks_like_a_number_is_lost(env):
    texts = answered(env, MESSAGE, *(f"Action: reverse_string, {text} End Action" for text in ("6e65", "0070", "1.50")))
    assert texts == ["56e6", "0700", "05.1"]


def test_calls_as_json_keep_commas_and_types():
    env = make("json")
    call = '{"tool": "caesar_decode", "args": ["b, c", 1]}'
    text, refused, spoiled = answered(
        env,
        MESSAGE,
        f"Action: {call} End Action",
        "Action: caesar_decode, b, 1 End Action",
        'Action: {"tool": 3} End Action',
    )
    assert text == "a, b"
    assert refused == spoiled
    assert is_invalid(refused)
    assert '{"tool": "tool_name"' in start(env, MESSAGE)[0]


def test_long_output_is_cut_with_a_note(env):
    (text,) = answered(env, MESSAGE, f"Action: reverse_string, {'ab' * 3000} End Action")
    assert text.startswith("ba" * 1000 + "\n[")
    assert len(text) < 2100


def test_no_call_hangs_or_grows(env):
    texts = answered(
        env,
        TRADE,
        "Action: calculator, 9**9**9 End Action",
        f"Action: convert_currency, {'9' * 5000}, 2 End Action",
        f"Action: find_maximum, {'1, ' * 20_000} End Action",
        f"Action: calculator, {'(' * 90_000} End Action",
    )
    assert [is_invalid(text) for text in texts] == [True] * 4
    assert max(map(len, texts)) < 600


# ---------------------------------------------------------------- answers


def test_any_answer_ends_the_episode(env):
    start(env, MESSAGE)
    assert env.step("Answer: nonsense")[1:4] == (0.0, True, False)
    start(env, MESSAGE)
    assert env.step(f"I am sure. Answer: '{make_task(MESSAGE).expected}'.")[1:4] == (1.0, True, False)


@pytest.mark.parametrize("engine", ["text", "text_strict"])
@pytest.mark.parametrize("task", [MESSAGE, TRADE])
@pytest.mark.parametrize("answer", ["9" * 400, "0x" + "f" * 3990])
def test_a_number_without_bounds_is_a_wrong_answer_and_no_fault(engine, task, answer):
    env = make(engine)
    start(env, task)
    assert env.step(f"Answer: {answer}")[1:4] == (0.0, True, False)


def test_by_upstreams_check_a_rounded_number_is_wrong():
    rounded = f"Answer: {make_task(TRADE).expected:.2f}"
    assert make().reset(options={"task": TRADE})[1]["goal"].endswith("Two digits after the point are enough.")
    scores = []
    for engine in ("text", "text_strict"):
        env = make(engine)
        start(env, TRADE)
        scores.append(env.step(rounded)[4]["score"])
    assert scores == [1.0, 0.0]


# ---------------------------------------------------------------- the site


def test_pages_are_five_lines_a_view_and_links_are_clicked_where_they_are_seen(env):
    home = answered(env, MAIL, "Action: view End Action")[0].splitlines()
    assert home[0] == "[page /, part 1 of 2]"
    assert len(home) == 6
    texts = answered(
        env,
        MAIL,
        "Action: scroll_up End Action",
        "Action: go_to_previous_page End Action",
        "Action: click_url, /staff/orchard End Action",
        "Action: scroll_down End Action",
        "Action: click_url, /staff End Action",
        "Action: scroll_up End Action",
        "Action: click_url, '/staff' End Action",
        "Action: scroll_down End Action",
        "Action: go_to_previous_page End Action",
    )
    assert [text.splitlines()[0] for text in texts] == [
        "[this is the top of the page]",
        "[there is no page before this one]",
        "[no such link in this view]",
        "[page /, part 2 of 2]",
        "[no such link in this view]",
        "[page /, part 1 of 2]",
        "[page /staff, part 1 of 1]",
        "[this is the end of the page]",
        "[page /, part 1 of 2]",
    ]


def test_the_expert_goes_over_several_pages_and_finds_its_way_back_from_a_wrong_one(env):
    start(env, MAIL)
    way = env.oracle().distance()
    assert way >= 6
    play(env, ["Action: click_url, /goods End Action"])
    rest = env.oracle().distance()
    assert rest > way - 1
    action = env.oracle().expert_action()
    assert action == "Action: go_to_previous_page End Action"
    scores = play_expert_from_here(env)
    assert (len(scores), scores[-1]) == (rest, 1.0)


def play_expert_from_here(env) -> list[float]:
    scores = []
    while (action := env.oracle().expert_action()) is not None:
        scores.append(env.step(action)[4]["score"])
    return scores


# ---------------------------------------------------------------- as it is read


def test_two_spellings_of_one_call_are_one_action(env):
    start(env, MESSAGE)
    read = env.as_read("Action: caesar_decode, abc, 3 End Action")
    assert env.as_read("Thought. Action:  caesar_decode ,abc,3  End Action") == read
    assert env.as_read("Action: caesar_decode, abc, 4 End Action") != read
    assert env.as_read("caesar_decode, abc, 3") == ""


def test_calls_as_json_are_one_action_if_their_values_are_the_same():
    env = make("json")
    start(env, MESSAGE)

    def read(call: str) -> str:
        return str(env.as_read(f"Action: {call} End Action"))

    right = read('{"tool": "caesar_decode", "args": ["ghfbfh lnfx", "19"]}')
    assert read('{"args": ["ghfbfh lnfx", 19],"tool": " caesar_decode"}') == right
    for other in ('["ghfbfh lnfx, 19"]', '[["ghfbfh lnfx", "19"]]', '["ghfbfh  lnfx", "19"]', '["ghfbfh lnfx", true]'):
        assert read(f'{{"tool": "caesar_decode", "args": {other}}}') not in ("", right)
    assert read('{"tool": "caesar_decode, ghfbfh lnfx, 19"}') not in ("", right)


def test_only_the_experts_own_call_is_labelled_right_where_calls_are_json():
    env = make("json")
    start(env, MESSAGE)
    play(env, [env.oracle().expert_action(), *env.oracle().route()[1:2]])
    calls = ('["ghfbfh lnfx, 19"]', '["ghfbfh lnfx", 19]')
    actions = [f'Action: {{"tool": "caesar_decode", "args": {call}}} End Action' for call in calls]
    view = AgentView(task_id=MESSAGE, action_format="", goal=env.goal, rules="", initial_observation="", turns=())
    assert labels(env, view, actions, "expert") == ["wrong", "correct"]


def test_the_one_look_may_be_written_as_json():
    env = make("json")
    start(env, MAIL)
    assert env.read_only('Action: {"args": [], "tool": "view"} End Action') == "Action: view End Action"


def test_another_engine_is_refused():
    with pytest.raises(UsageError, match="it has text, json, text_strict, json_strict"):
        align_echo.make("m3tooleval", engine="code")


def test_expert_actions_are_kept_apart_from_other_calls(env):
    gold = actions_of(play_expert(env, PLANT))
    start(env, PLANT)
    play(env, ["Action: is_valid_dna_sequence, ACGT End Action", gold[1]])
    assert env.oracle().expert_action() == gold[0]
    assert env.oracle().distance() == len(gold) - 1
