"""Recipes: who plays what under which critique, and what every row earns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.base.dice import Dice
from align_echo.critic.ask import Label
from align_echo.rollout.session import Episode
from align_echo.train.methods.critique_grpo import critique_grpo
from align_echo.train.methods.echo import echo
from align_echo.train.methods.grpo import grpo
from align_echo.train.methods.icrl import icrl
from align_echo.train.methods.luffy import luffy
from align_echo.train.methods.rcm import Labelled, balanced, rcm
from align_echo.train.methods.regenerate import regenerate
from align_echo.train.methods.sft import sft
from align_echo.train.rewards import linear_gain, saturation_gain
from align_echo.train.rows import Role, RolloutBatch
from align_echo.train.stage import ActionProposal, CritiqueRequest
from tests.train.scripted_stage import BROKEN, OPENING, TOLD_OPENING, ScriptedStage


def rewards(harvest: RolloutBatch, role: Role, group: str) -> list[float]:
    return [row.reward for row in harvest.rows if (row.role, row.group) == (role, group)]


def test_grpo_plays_every_query_as_often_as_asked_and_leaves_out_what_broke():
    def score(episode: Episode) -> float | None:
        return None if episode == Episode("b", 1) else episode.sample / 2

    harvest = grpo(["a", "b"], ScriptedStage(score), samples=3)
    assert rewards(harvest, "policy", "a") == [0.0, 0.5, 1.0]
    assert rewards(harvest, "policy", "b") == [0.0, 1.0]
    assert harvest.counts["broken rollouts"] == 1
    assert harvest.steps == 12
    assert all(row.tokens.mask == (0, 0, 0, 1, 1, 0, 0, 1) and not row.moved for row in harvest.rows)


def test_echo_trains_on_refinements_and_critiques_and_not_on_the_attempt():
    def score(episode: Episode) -> float:
        return {"": 0.5, "hint 0": 1.0, "hint 1": 0.25}[episode.critique]

    stage = ScriptedStage(score)
    harvest = echo(["a", "b"], stage, refinements=2)
    assert [episode for episode in stage.played if not episode.critique] == [Episode("a"), Episode("b")]
    assert stage.played[1:3] == [Episode("a", 1, "hint 0"), Episode("a", 2, "hint 1")]
    for query in ("a", "b"):
        assert rewards(harvest, "policy", query) == [1.0, 0.25]
        assert rewards(harvest, "critic", query) == [saturation_gain(0.5, 1.0), saturation_gain(0.5, 0.25)]
    assert harvest.refinements[:2] == ((0.5, 1.0), (0.5, 0.25))
    assert harvest.steps == 12
    assert [row.tokens.ids[: len(TOLD_OPENING)] for row in harvest.rows if row.role == "policy"] == [TOLD_OPENING] * 4


def test_echo_asks_for_critiques_of_won_attempts_only_where_it_is_to():
    def score(episode: Episode) -> float:
        return 1.0 if episode.task_id == "a" else 0.25

    stage = ScriptedStage(score)
    harvest = echo(["a", "b"], stage, refinements=2, critique_won=False)
    assert {request.attempt.task_id for request in stage.asked} == {"b"}
    assert [episode for episode in stage.played if episode.task_id == "a"] == [Episode("a", n) for n in range(3)]
    assert rewards(harvest, "policy", "a") == [1.0, 1.0]
    assert rewards(harvest, "policy", "b") == [0.25, 0.25]
    assert {row.group for row in harvest.rows if row.role == "critic"} == {"b"}
    assert harvest.refinements == ((0.25, 0.25), (0.25, 0.25))
    assert harvest.steps == 12
    echo(["a"], (paper := ScriptedStage(score)), refinements=2)
    assert len(paper.asked) == 2


def test_echos_ablation_rewards_the_difference():
    harvest = echo(
        ["a"], ScriptedStage(lambda episode: 1.0 if episode.critique else 0.25), refinements=1, reward=linear_gain
    )
    assert rewards(harvest, "critic", "a") == [0.75]


def test_echo_without_its_critic_plays_as_much_and_measures_what_sampling_again_is_worth():
    def score(episode: Episode) -> float | None:
        return None if episode in (Episode("b"), Episode("a", 2)) else episode.sample / 4

    stage = ScriptedStage(score)
    harvest = regenerate(["a", "b"], stage, samples=3)
    assert stage.played == [Episode("a"), Episode("b"), Episode("a", 1), Episode("a", 2), Episode("a", 3)]
    assert stage.asked == []
    assert rewards(harvest, "policy", "a") == [0.25, 0.75]
    assert harvest.refinements == ((0.0, 0.25), (0.0, 0.75))
    assert harvest.counts == {"broken rollouts": 2}
    assert harvest.steps == 10


def test_a_critique_that_cannot_be_read_is_not_played_and_earns_the_least():
    def advice(request: CritiqueRequest) -> str | None:
        return "hint" if request.sample else None

    stage = ScriptedStage(lambda episode: 0.75, advice)
    harvest = echo(["a"], stage, refinements=2)
    assert [episode.critique for episode in stage.played] == ["", "hint"]
    assert sorted(rewards(harvest, "critic", "a")) == [saturation_gain(0.75, 0.0), 0.0]
    assert harvest.counts["critiques of lost attempts"] == 2
    assert harvest.counts["unread critiques of lost attempts"] == 1
    assert harvest.counts["unread critiques of won attempts"] == 0


def test_what_broke_earns_neither_policy_nor_critic_anything():
    def score(episode: Episode) -> float | None:
        return None if episode.critique == "hint 1" or episode.task_id == "b" else 0.5

    stage = ScriptedStage(score)
    harvest = echo(["a", "b"], stage, refinements=2)
    assert {request.attempt.task_id for request in stage.asked} == {"a"}
    assert rewards(harvest, "policy", "a") == [0.5]
    assert rewards(harvest, "critic", "a") == [0.0]
    assert harvest.counts["broken rollouts"] == 2


def test_icrl_criticises_failures_only_and_compares_all_attempts_of_a_query():
    def score(episode: Episode) -> float:
        return 1.0 if episode.sample == 1 or episode.critique == "hint 2" else 0.0

    stage = ScriptedStage(score)
    harvest = icrl(["a"], stage, sessions=3)
    assert [request.sample for request in stage.asked] == [0, 2]
    assert stage.played[3:] == [Episode("a", 3, "hint 0"), Episode("a", 5, "hint 2")]
    assert rewards(harvest, "policy", "a") == [0.0, 1.0, 0.0, 0.0, 1.0]
    assert rewards(harvest, "critic", "a") == [0.0, 1.0]


def test_icrl_trains_a_revision_without_its_critique():
    harvest = icrl(["a"], ScriptedStage(lambda episode: 0.0), sessions=1)
    first, revised = (row for row in harvest.rows if row.role == "policy")
    assert (first.moved, revised.moved) == (False, True)
    assert revised.tokens.ids == (*OPENING, 51, 4, 5, 6, 7)
    assert revised.tokens.mask == first.tokens.mask
    assert revised.tokens.logprobs == first.tokens.logprobs
    assert revised.tokens.turns == first.tokens.turns == ((3, 5), (7, 8))


@pytest.mark.parametrize("rounds", [1, 3])
def test_icrl_plays_as_many_rounds_as_asked(rounds):
    stage = ScriptedStage(lambda episode: 0.0)
    harvest = icrl(["a", "b"], stage, sessions=2, rounds=rounds)
    assert len(stage.played) == 4 * rounds
    assert len(set(stage.played)) == len(stage.played), "every draw is one of its own"
    assert len([row for row in harvest.rows if row.role == "critic"]) == 4 * (rounds - 1)


def test_luffy_puts_an_expert_into_every_group():
    harvest = luffy(["a", "b"], ScriptedStage(lambda episode: 0.0), samples=3)
    assert rewards(harvest, "policy", "a") == rewards(harvest, "policy", "b") == [0.0, 0.0, 1.0]
    assert [row.expert for row in harvest.rows] == [False] * 4 + [True] * 2


def test_luffy_leaves_out_and_counts_what_the_expert_did_not_win():
    harvest = luffy(["a", "b"], ScriptedStage(lambda episode: 0.0, expert_wins=lambda query: query == "a"), samples=2)
    assert (rewards(harvest, "policy", "a"), rewards(harvest, "policy", "b")) == ([0.0, 1.0], [0.0])
    assert harvest.counts == {"broken rollouts": 0, "failed lessons": 1}


def test_sft_imitates_the_experts_episodes_that_were_won():
    stage = ScriptedStage(lambda episode: 0.0, expert_wins=lambda query: query != "b")
    harvest = sft(["a", "b", "c"], stage)
    assert [(row.role, row.group, row.reward, row.expert) for row in harvest.rows] == [
        ("policy", "a", 1.0, True),
        ("policy", "c", 1.0, True),
    ]
    assert stage.played == []
    assert harvest.counts == {"failed lessons": 1, "broken rollouts": 0}
    assert harvest.steps == 6


def test_critique_grpo_adds_the_best_refinement_of_a_query_without_its_critique():
    def score(episode: Episode) -> float:
        return {"": 0.5 * episode.sample, "hint 0": 0.25, "hint 1": 0.75}[episode.critique]

    harvest = critique_grpo(["a"], ScriptedStage(score), samples=3)
    assert rewards(harvest, "policy", "a") == [0.0, 0.5, 1.0, 0.75]
    assert [(row.moved, row.expert) for row in harvest.rows] == [(False, False)] * 3 + [(True, True)]
    assert harvest.rows[-1].tokens.ids[:4] == (*OPENING, 54)
    assert {row.role for row in harvest.rows} == {"policy"}


def test_rcm_rewards_form_and_agreement_with_the_oracle_and_trains_the_critic_alone():
    def verdict(proposal: ActionProposal) -> Label | None:
        return {0: "correct", 1: "wrong", 2: None}[proposal.sample]

    stage = ScriptedStage(lambda episode: 0.5, verdict=verdict)
    harvest = rcm(["a"], stage, samples=3)
    assert stage.played == [Episode("a")]
    assert rewards(harvest, "critic", "a turn 0") == [0.1, 1.0, 0.0]
    assert rewards(harvest, "critic", "a turn 1") == [1.0, 0.1, 0.0]
    assert {row.role for row in harvest.rows} == {"critic"}
    assert harvest.counts["unread verdicts"] == 2
    assert (harvest.counts["right actions"], harvest.counts["wrong actions"]) == (1, 1)
    assert harvest.steps == 2


def test_rcm_leaves_out_what_broke_and_what_has_no_label():
    stage = ScriptedStage(
        lambda episode: None if episode.task_id == "b" else 0.5,
        label=lambda query, turn: "wrong" if turn else None,
        verdict=lambda proposal: BROKEN if proposal.sample else "wrong",
    )
    harvest = rcm(["a", "b"], stage, samples=2)
    assert {(proposal.attempt.task_id, proposal.turn) for proposal in stage.proposed} == {("a", 1)}
    assert [(row.group, row.reward) for row in harvest.rows] == [("a turn 1", 1.0)]
    assert {name: count for name, count in harvest.counts.items() if count} == {
        "broken rollouts": 1,
        "broken verdicts": 1,
        "unlabelled actions": 1,
        "wrong actions": 1,
    }


def test_rcm_judges_the_same_actions_of_the_same_episodes():
    queries = [f"task {number}" for number in range(9)]

    def asked(states: int) -> list[tuple[str, int]]:
        stage = ScriptedStage(lambda episode: 0.5)
        rcm(queries, stage, samples=1, states=states)
        return [(proposal.attempt.task_id, proposal.turn) for proposal in stage.proposed]

    assert asked(1) == asked(1)
    assert [turn for _, turn in asked(1)].count(1) == 4
    assert {task for task, turn in asked(1) if turn} != set(queries[:4]), "they are drawn from all episodes"
    assert len(set(asked(2))) == 18


@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 8))
def test_actions_are_drawn_half_right_and_half_wrong_where_there_are_enough(right, wrong, count):
    stage = ScriptedStage(lambda episode: 0.5)
    (episode,) = stage.play([Episode("a")])
    pool: list[Labelled] = [
        (ActionProposal(episode, turn), "correct" if turn < right else "wrong") for turn in range(right + wrong)
    ]
    drawn = balanced(pool, count, Dice("x"))
    of_right = sum(label == "correct" for _, label in drawn)
    assert len(drawn) == len({of.turn for of, _ in drawn}) == min(count, right + wrong)
    assert set(drawn) <= set(pool)
    if min(right, wrong) >= (count + 1) // 2:
        assert of_right == count // 2
    assert of_right in (right, len(drawn) - wrong, count // 2)
