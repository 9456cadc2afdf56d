"""Episodes as a task of inspect_ai: its ends are told apart, and what breaks has no score."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")

import inspect_ai
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from align_echo.agents.reasoning import Vanilla
from align_echo.errors import EngineError, UsageError
from align_echo.loops.inspect import episodes
from align_echo.models.drawing import ScriptedModel
from align_echo.rollout.batches import run_episode
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment
from tests.play import WINNING
from tests.room_env import TASK_IDS, RoomEnv, instead_of

MUG, BOOK = TASK_IDS
USAGE = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
ROOM = instead_of(environment("alfworld"))
LOST = EngineError("pipe closed")


class Brittle(RoomEnv):
    """Breaks at the second action."""

    def _act(self, action: str):
        if self._turns == 1:
            raise LOST
        return super()._act(action)


def said(text: str, stop_reason: str = "stop") -> ModelOutput:
    output = ModelOutput.from_content("script", text, stop_reason=stop_reason)
    output.usage = USAGE
    return output


def outputs(replies: Iterable[str | ModelOutput | Exception]) -> Callable[..., ModelOutput]:
    """A model that says these one after the other, and then looks about."""
    rest = iter(replies)

    def answer(*_: object) -> ModelOutput:
        reply = next(rest, "look")
        if isinstance(reply, Exception):
            raise reply
        return said(reply) if isinstance(reply, str) else reply

    return answer


def play(
    folder: Path, replies: Iterable[str | ModelOutput | Exception], *, env: object = ROOM, **options: object
) -> EvalLog:
    limits = {key: options.pop(key) for key in ("message_limit", "epochs", "score_on_error") if key in options}
    (log,) = inspect_ai.eval(
        episodes(env, step_limit=4, **options),
        model=get_model("mockllm/model", custom_outputs=outputs(replies)),
        max_samples=1,
        display="none",
        log_dir=str(folder),
        log_format="json",
        **limits,
    )
    assert log.status == "success", log.error
    return log


def of(sample: EvalSample) -> Trajectory:
    return Trajectory.model_validate(sample.store["trajectory"])


def broke(sample: EvalSample) -> str:
    """What broke the episode."""
    fault = of(sample).fault
    return fault.source if fault else ""


def figures(sample: EvalSample) -> dict[str, float]:
    return dict(sample.scores["reward"].value)


def test_an_episode_is_the_one_that_the_agent_plays_and_its_end_is_told(tmp_path):
    ((won,), (truncated,)) = (play(tmp_path, replies, tasks=MUG).samples for replies in (WINNING, ()))
    assert figures(won) == {"success": 1, "score": 1, "truncated": 0}
    assert figures(truncated) == {"success": 0, "score": 0, "truncated": 1}
    assert [sample.scores["reward"].metadata for sample in (won, truncated)] == [{"end": "won"}, {"end": "truncated"}]
    model = ScriptedModel(WINNING)
    alone = run_episode(RoomEnv(4), Vanilla(model), MUG, split=ROOM.test_split, action_format=ROOM.action_format)
    assert of(won).steps == alone.steps
    assert [(message.role, message.text) for message in won.messages[:-1]] == [
        (message.role, message.content) for message in model.requests[-1]
    ]


def test_a_lost_episode_is_not_a_truncated_one(tmp_path):
    class Ended(RoomEnv):
        def _act(self, action: str):
            return dataclasses.replace(super()._act(action), done=True)

    (lost,) = play(tmp_path, [], env=instead_of(ROOM, Ended), tasks=MUG).samples
    assert figures(lost) == {"success": 0, "score": 0, "truncated": 0}


def test_an_environment_that_breaks_gives_an_error_and_no_score(tmp_path):
    log = play(tmp_path, WINNING, env=instead_of(ROOM, Brittle), tasks=[MUG])
    (broken,) = log.samples
    assert "pipe closed" in broken.error.message
    assert not broken.scores
    assert broke(broken) == "environment"
    assert log.results is None


def test_no_score_is_made_up_where_inspect_scores_what_broke(tmp_path):
    log = play(tmp_path, WINNING, env=instead_of(ROOM, Brittle), tasks=[MUG], score_on_error=True)
    assert [(score.scored_samples, score.unscored_samples) for score in log.results.scores] in ([], [(0, 1)] * 3)


@pytest.mark.parametrize("broken", [RuntimeError("no route"), said("", "content_filter")])
def test_a_model_that_breaks_gives_an_error_and_no_score(tmp_path, broken):
    (sample,) = play(tmp_path, ["look", broken], tasks=[MUG]).samples
    assert sample.error is not None
    assert not sample.scores
    assert (broke(sample), len(of(sample).steps)) == ("model", 1)


def test_a_reply_that_was_cut_off_costs_its_turn_and_a_full_context_ends_the_episode(tmp_path):
    (sample,) = play(tmp_path, [said("take mug 1", "max_tokens"), said("", "model_length")], tasks=[MUG]).samples
    (step,) = of(sample).steps
    assert (step.action, step.cut_off) == (None, True)
    assert (of(sample).context_overflow, figures(sample)["truncated"]) == (True, 1)


def test_a_limit_of_inspect_truncates_the_episode(tmp_path):
    (sample,) = play(tmp_path, [], tasks=[MUG], message_limit=5).samples
    assert sample.limit is not None
    assert figures(sample) == {"success": 0, "score": 0, "truncated": 1}


def test_an_epoch_is_another_episode_of_the_task(tmp_path):
    samples = play(tmp_path, WINNING, tasks=[MUG], epochs=2).samples
    assert [(of(sample).sample, of(sample).won) for sample in samples] == [(0, True), (1, False)]


def test_a_task_is_found_in_a_file_of_a_few_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "games.py"
    file.write_text(
        "from inspect_ai import task\nfrom align_echo.loops.inspect import episodes\n\n"
        "@task\ndef games():\n    return episodes('alfworld', tasks=2, interface='probe', step_limit=1)\n"
    )
    model = get_model("mockllm/model", custom_outputs=outputs([]))
    (log,) = inspect_ai.eval(file.name, model=model, display="none", log_dir=str(tmp_path), log_format="json")
    assert (log.eval.task, log.eval.metadata["interface"].partition("@")[0]) == ("games", "alfworld/probe")
    assert [of(sample).interface.partition("@")[0] for sample in log.samples] == ["alfworld/probe"] * 2
    assert "# Rules" in log.samples[0].messages[0].text or of(log.samples[0]).rules in log.samples[0].messages[0].text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ["room/mug-to-studio"]}, "did you mean room/mug-to-study"),
        ({"tasks": [MUG, BOOK, MUG]}, "each of them once"),
        ({"tasks": []}, "at least one task"),
        ({"tasks": 3}, "ask for 1 to 2"),
        ({"split": "tests"}, "no split 'tests'"),
        ({"agent": "self-refine"}, "just once a turn"),
        ({"agent": "novice"}, "just once a turn"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(options, message):
    with pytest.raises(UsageError, match=message):
        episodes(ROOM, **options)
