"""The pocket model that ships: what is in the package, and that it plays, criticises and judges."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers import AutoModelForCausalLM

import align_echo
from align_echo.agents.reasoning import Vanilla
from align_echo.critic.ask import parse_verdict, verdict_messages
from align_echo.critic.language import critic_messages, parse_critique
from align_echo.errors import ReplyFormatError
from align_echo.models import load_model
from align_echo.models.choosing import what_pocket_lacks
from align_echo.models.local.chat import LocalModel
from align_echo.models.local.loading import pocket_folder
from align_echo.rollout.batches import run_tasks, view_before
from align_echo.rollout.session import Episode
from align_echo.tokens import token_sequence
from align_echo.types import AgentView, Trajectory
from align_echo.wrappers.catalogue import environment
from studies.pocket.build import PocketSettings
from studies.pocket.household import REFUSAL
from studies.pocket.idle_words import HELD_OUT

SPEC = environment("alfworld")
MOST_BYTES = 16 * 2**20


@pytest.fixture(scope="module")
def pocket() -> LocalModel:
    model = load_model("pocket")
    assert isinstance(model, LocalModel)
    return model


@pytest.fixture(scope="module")
def played(pocket):
    """Some unseen ALFWorld tasks under the shipped interface."""
    return run_tasks(
        lambda: align_echo.make("alfworld", split=SPEC.test_split, interface="probe"),
        Vanilla(pocket),
        align_echo.tasks("alfworld", split=SPEC.test_split)[:12],
        split=SPEC.test_split,
        action_format=SPEC.action_format,
        workers=12,
    )


def test_it_is_in_the_package_small_and_made_by_the_settings_of_the_code():
    folder = pocket_folder()
    assert what_pocket_lacks() == ""
    assert sum(file.stat().st_size for file in folder.iterdir()) < MOST_BYTES
    made = json.loads((folder / "making.json").read_text())
    assert PocketSettings.model_validate(made["settings"]) == PocketSettings()
    assert made["data_sha256"] in (folder / "README.md").read_text()


def test_the_two_verdicts_are_one_token_each(pocket):
    assert {len(pocket.encoder.plain(word)) for word in ("correct", "wrong")} == {1}


@pytest.mark.long
def test_it_wins_most_unseen_tasks_under_the_interface_and_says_nothing_that_cannot_be_read(played):
    assert sum(episode.won for episode in played) >= 8
    steps = [step for episode in played for step in episode.steps]
    assert sum(step.problem != "" for step in steps) / len(steps) < 0.05


@pytest.mark.long
def test_idle_words_leave_it_stuck_and_a_command_frees_it(pocket):
    """After a refusal that it answers by saying the same again: words that it was never shown, then other commands."""
    stuck = [view for episode in careless_attempts(pocket) for view in stuck_views(episode)][:12]
    assert len(stuck) >= 4
    idle = freed = left = asked = 0
    for view in stuck:
        last = view.turns[-1].action
        for words in HELD_OUT:
            idle += act(pocket, view, f"{REFUSAL} {words}") == last
        places = sorted(set(re.findall(r"[a-z]+ \d+", view.initial_observation)))
        command = next(f"go to {place}" for place in places if place not in str(last))
        for order in ("You need to `{}` first.", "You need to {} first.", "Try {} first."):
            freed += act(pocket, view, f"{REFUSAL} {order.format(command)}") == command
            asked += 1
        left += act(pocket, view, f'{REFUSAL} First "{command}", please.') != last
    assert idle / (len(HELD_OUT) * len(stuck)) >= 0.8
    assert freed / asked >= 0.7
    assert left / len(stuck) >= 0.7


def careless_attempts(pocket: LocalModel) -> list[Trajectory]:
    return run_tasks(
        lambda: align_echo.make("alfworld", split="valid_seen", step_limit=16),
        Vanilla(pocket),
        align_echo.tasks("alfworld", split="valid_seen")[::4],
        split="valid_seen",
        action_format=SPEC.action_format,
        workers=10,
    )


def stuck_views(episode: Trajectory) -> list[AgentView]:
    """What it saw after a refusal, where it then repeated what was refused; the first of an episode."""
    for turn, (step, following) in enumerate(pairwise(episode.steps)):
        if step.observation == REFUSAL and following.action == step.action:
            return [view_before(episode, turn + 1, SPEC.action_format)]
    return []


def act(pocket: LocalModel, view: AgentView, observation: str) -> str | None:
    """What it does where the last observation was another."""
    last = view.turns[-1].model_copy(update={"observation": observation})
    return Vanilla(pocket).act(view.model_copy(update={"turns": (*view.turns[:-1], last)})).action


@pytest.mark.long
def test_what_was_recorded_at_sampling_is_what_a_forward_pass_gives(pocket, played):
    model = AutoModelForCausalLM.from_pretrained(pocket_folder(), dtype=torch.float32)
    for run_task in run_tasks(
        lambda: align_echo.make("alfworld", split=SPEC.test_split, step_limit=12),
        Vanilla(pocket, temperature=1.0),
        [Episode(played[0].task_id, sample) for sample in range(3)],
        split=SPEC.test_split,
        action_format=SPEC.action_format,
    ):
        sequence = token_sequence(run_task)
        ids = torch.tensor([sequence.ids])
        with torch.no_grad():
            logprobs = model(input_ids=ids).logits[:, :-1].log_softmax(-1)
        wanted = logprobs.gather(-1, ids[:, 1:, None]).squeeze(-1) * torch.tensor(sequence.mask[1:])
        assert torch.allclose(wanted, torch.tensor([sequence.logprobs[1:]]), atol=1e-4)


@pytest.mark.long
def test_it_criticises_in_the_form_that_is_asked_for(pocket, played):
    lost_first = sorted(played, key=lambda episode: episode.won)
    readable = 0
    for form in ("echo", "icrl"):
        for episode in lost_first[:4]:
            critique = pocket.complete(critic_messages(episode, form), temperature=0, max_tokens=160).text
            try:
                parse_critique(critique, form)
                readable += 1
            except ReplyFormatError:
                pass
    assert readable >= 4


@pytest.mark.long
def test_it_judges_an_action_in_one_word(pocket, played):
    view = view_before(played[0], 1, SPEC.action_format)
    messages = verdict_messages(Vanilla(pocket).conversation(view), "look")
    assert parse_verdict(pocket.complete(messages, temperature=0, max_tokens=4).text) in ("correct", "wrong")
