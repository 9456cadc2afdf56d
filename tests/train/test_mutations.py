"""Mutants of the trainer's maths: each must be noticed by the test that is named beside it.

A mutant is the package with one piece of source replaced, in a folder of its own. Slow: every mutant is a process that
loads torch. Left out: mutants that are equal to the original in all that a user could see.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import align_echo

ROOT = Path(align_echo.__file__).parent.parent


class Mutant(NamedTuple):
    """`old` stands once in `align_echo/train/<file>.py` and becomes `new`; `test` of tests/train must fail then."""

    file: str
    old: str
    new: str
    test: str


MUTANTS = [
    # rewards
    Mutant("rewards", "(1 - before + eta) / (1 - after + eta)", "(1 - after + eta) / (1 - before + eta)",
           "test_rewards.py::test_the_gain_by_hand"),
    Mutant("rewards", "(1 - before + eta) / (1 - after + eta)", "(1 - before) / (1 - after + eta)",
           "test_rewards.py::test_the_gain_by_hand"),
    Mutant("rewards", "return math.log((", "return ((", "test_rewards.py::test_the_gain_is_additive_along_a_path"),
    Mutant("rewards", "return after - before", "return before - after",
           "test_rewards.py::test_the_linear_gain_is_the_difference"),
    Mutant("rewards", "if after >= 1 else gain", "if after > 0 else gain",
           "test_rewards.py::test_a_revision_that_succeeds_earns_1_and_others_their_change"),
    Mutant("rewards", "1.0 if after >= 1 else gain", "gain",
           "test_rewards.py::test_a_revision_that_succeeds_earns_1_and_others_their_change"),
    # advantages
    Mutant("advantages", "statistics.stdev(group, mean)", "statistics.pstdev(group, mean)",
           "test_advantages.py::test_two_groups_by_hand"),
    Mutant("advantages", "statistics.stdev(group, mean) + delta", "statistics.stdev(group, mean)",
           "test_advantages.py::test_two_groups_by_hand"),
    Mutant("advantages", "(rewards[index] - mean) / scale", "rewards[index] / scale",
           "test_advantages.py::test_every_group_has_mean_0_and_keeps_its_order"),
    Mutant("advantages", "mean = statistics.fmean(group)", "mean = statistics.fmean(rewards)",
           "test_advantages.py::test_roles_are_not_compared_with_each_other"),
    Mutant("advantages", "elif max(group) == min(group):", "elif False:",
           "test_advantages.py::test_groups_that_teach_nothing_have_advantage_0_and_are_counted"),
    # objective
    Mutant("objective", "-torch.minimum(ratio_BT * advantages_BT", "-torch.maximum(ratio_BT * advantages_BT",
           "test_objective.py::test_the_clipped_term_by_hand"),
    Mutant("objective", "ratio_BT.clamp(1 - low, 1 + high)", "ratio_BT.clamp(1 - low, 1 + low)",
           "test_objective.py::test_the_clipped_term_by_hand"),
    Mutant("objective", "(logs_BT.sum(-1) / mask_BT.sum(-1).clamp_min(1))", "logs_BT.sum(-1)",
           "test_objective.py::test_ratios_by_hand"),
    Mutant("objective", "(log_ratios(logprobs_BT, old_BT,", "(log_ratios(old_BT, logprobs_BT,",
           "test_objective.py::test_ratios_by_hand"),
    Mutant("objective", "torch.where(mask_BT.bool(), over_BT.to(wide) - under_BT.to(wide), 0.0)",
           "over_BT.to(wide) - under_BT.to(wide)",
           "test_objective.py::test_what_stands_outside_the_mask_changes_neither_loss_nor_gradient"),
    Mutant("objective", "log_ratios(reference_BT, logprobs_BT,", "log_ratios(logprobs_BT, reference_BT,",
           "test_objective.py::test_kl_estimates"),
    Mutant("objective", "_held(d).expm1() - d", "_held(d).exp() - d", "test_objective.py::test_kl_estimates"),
    Mutant("objective", "log_ratios(free_BT, conditioned_BT,", "log_ratios(conditioned_BT, free_BT,",
           "test_objective.py::test_calibration_weights_by_hand"),
    Mutant("objective", "detach())\n    return torch.where(mask_BT.bool(), ratio_BT.clamp(max=most)",
           "detach())\n    return torch.where(mask_BT.bool(), ratio_BT",
           "test_objective.py::test_calibration_weights_by_hand"),
    Mutant("objective", "conditioned_BT, mask_BT).detach()", "conditioned_BT, mask_BT)",
           "test_objective.py::test_calibration_weights_carry_no_gradient"),
    Mutant("objective", "probabilities / (probabilities + gamma)", "probabilities / (1 + gamma)",
           "test_objective.py::test_luffys_shaping_lifts_what_is_unlikely"),
    Mutant("objective", "(ratio_BT < 1 - low) & (advantages_BT < 0)", "(ratio_BT < 1 - low)",
           "test_objective.py::test_clipped_tokens_and_no_others_are_without_gradient"),
    # batching
    Mutant("batching", '["both" if together else row.role for row in rows]', "[row.role for row in rows]",
           "test_batching.py::test_scales_of_roles_that_share_weights_are_of_one_mean_by_hand"),
    Mutant("batching", '["both" if together else row.role for row in rows]', '["both" for row in rows]',
           "test_batching.py::test_scales_by_hand"),
    Mutant("batching", 'count if normalisation == "token" else count > 0', "count",
           "test_batching.py::test_scales_by_hand"),
    Mutant("batching", 'count if normalisation == "token" else count > 0',
           'count if normalisation == "token" else 1', "test_batching.py::test_scales_by_hand"),
    Mutant("batching", '1 if normalisation == "token" else count for', "1 for",
           "test_batching.py::test_scales_by_hand"),
    Mutant("batching", "mask=mask[:, 1:]", "mask=mask[:, :-1]",
           "test_batching.py::test_one_batch_by_hand"),
    Mutant("batching", "sampled=sampled[:, 1:]", "sampled=sampled[:, :-1]",
           "test_batching.py::test_one_batch_by_hand"),
    # trees
    Mutant("tree_attention", "positions.append(position)", "positions.append(len(positions))",
           "test_trees.py::test_a_tree_by_hand"),
    Mutant("tree_attention", " & (places_N[first:end, None] < ends_N[keys][None, :])", "",
           "test_shared_prefixes.py::test_log_probabilities_in_a_tree_are_those_of_whole_rows"),
    Mutant("forward", "hidden[parents[nodes]]", "hidden[nodes]",
           "test_shared_prefixes.py::test_log_probabilities_in_a_tree_are_those_of_whole_rows"),
    # loss
    Mutant("objective", "batch.sampled, mask, objective.max_weight)", "batch.sampled, mask)",
           "test_loss.py::test_batches_give_the_loss_and_gradient_of_rows_alone"),
    Mutant("objective", "torch.where(batch.moved, calibrated, weights)", "calibrated",
           "test_loss.py::test_batches_give_the_loss_and_gradient_of_rows_alone"),
    Mutant("objective", "level)\n    return torch.where(mask_BT.bool(), ratio_BT.clamp(max=most)",
           "level)\n    return torch.where(mask_BT.bool(), ratio_BT",
           "test_objective.py::test_the_weights_of_stale_tokens_by_hand"),
    Mutant("objective", "if stale and objective.corrected:", "if stale:",
           "test_loss.py::test_rows_that_earlier_weights_sampled_count_by_how_much_likelier_they_became"),
    Mutant("objective", "torch.where(batch.moved, weights, since)", "since",
           "test_loss.py::test_rows_that_earlier_weights_sampled_count_by_how_much_likelier_they_became"),
    Mutant("trainer", '"stale": self._settings.ahead}', '"stale": False}',
           "test_ahead.py::test_rows_that_earlier_weights_sampled_are_weighed_by_the_trainer"),
    Mutant("objective", "if objective.reweigh:", "if True:",
           "test_loss.py::test_batches_give_the_loss_and_gradient_of_rows_alone"),
    Mutant("objective", "= objective.clip_low, objective.clip_high", "= objective.clip_high, objective.clip_low",
           "test_loss.py::test_batches_give_the_loss_and_gradient_of_rows_alone"),
    Mutant("objective", "calibration_weights(old, batch.sampled", "calibration_weights(logprobs, batch.sampled",
           "test_loss.py::test_batches_give_the_loss_and_gradient_of_rows_alone"),
    Mutant("objective", "terms + objective.beta * kl", "terms - objective.beta * kl",
           "test_loss.py::test_batches_give_the_loss_and_gradient_of_rows_alone"),
    Mutant("objective", "-liked * batch.advantages", "-liked",
           "test_loss.py::test_batches_give_the_loss_and_gradient_of_rows_alone"),
    Mutant("objective", "terms_BT, 0.0) * batch.scale", "terms_BT, 0.0)",
           "test_loss.py::test_batches_give_the_loss_and_gradient_of_rows_alone"),
    Mutant("objective", "clipped_terms(ratio, batch.advantages,", "clipped_terms(ratio, batch.advantages.abs(),",
           "test_loss.py::test_batches_give_the_loss_and_gradient_of_rows_alone"),
    # trainer
    Mutant("trainer", "row.group if settings.joint else (row.role, row.group)", "row.group",
           "test_trainer.py::test_roles_are_one_group_where_the_settings_say_so_and_nowhere_else"),
    Mutant("trainer", "row.group if settings.joint else (row.role, row.group)", "(row.role, row.group)",
           "test_trainer.py::test_roles_are_one_group_where_the_settings_say_so_and_nowhere_else"),
    Mutant("trainer", '"group")(rows, keys, settings.scaled)', '"group")(rows, keys, True)',
           "test_trainer.py::test_advantages_are_scaled_where_the_settings_say_so"),
    Mutant("trainer", "normalisation, together=together)", "normalisation)",
           "test_trainer.py::test_roles_that_share_weights_are_one_mean_and_others_one_each"),
    Mutant("trainer", "normalisation, together=together)", "normalisation, together=True)",
           "test_trainer.py::test_roles_that_share_weights_are_one_mean_and_others_one_each"),
    Mutant("trainer", '{"old": old, "reference"', '{"old": None, "reference"',
           "test_trainer.py::test_a_second_update_uses_the_log_probabilities_of_the_first"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=lambda number: f"{MUTANTS[number].file}-{number}")
def test_a_mutant_has_its_place_and_its_test(number: int):
    """Quick, so that a change of the source takes its mutants along."""
    mutant = MUTANTS[number]
    source = (ROOT / "align_echo" / "train" / f"{mutant.file}.py").read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1, "the mutant's place is gone: write it for the source as it is now"
    file, _, name = mutant.test.partition("::")
    assert f"def {name}(" in (Path(__file__).parent / file).read_text(encoding="utf-8")


def in_a_copy(folder: Path) -> Path:
    """The project in a folder: `align_echo/train` and the tests as copies of files, all else as links."""
    for name in ("tests", "pyproject.toml", "prompts"):
        (folder / name).symlink_to(ROOT / name)
    package = folder / "align_echo"
    package.mkdir()
    for entry in (ROOT / "align_echo").iterdir():
        if entry.name not in ("train", "__pycache__"):
            (package / entry.name).symlink_to(entry)
    (package / "train").mkdir()
    for entry in (ROOT / "align_echo" / "train").iterdir():
        if entry.is_file():
            (package / "train" / entry.name).write_bytes(entry.read_bytes())
        elif entry.name != "__pycache__":
            (package / "train" / entry.name).symlink_to(entry)
    return folder


def outcome(folder: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    """What the tests say in that folder; the first failure ends them."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_the_tests_pass_without_a_mutant(tmp_path: Path):
    tests = sorted({f"tests/train/{mutant.test}" for mutant in MUTANTS})
    process = outcome(in_a_copy(tmp_path), tests)
    assert process.returncode == 0, process.stdout


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=lambda number: f"{MUTANTS[number].file}-{number}")
def test_a_mutant_is_noticed(number: int, tmp_path: Path):
    mutant = MUTANTS[number]
    file = in_a_copy(tmp_path) / "align_echo" / "train" / f"{mutant.file}.py"
    source = file.read_text(encoding="utf-8")
    file.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
    process = outcome(tmp_path, [f"tests/train/{mutant.test}"])
    assert process.returncode == 1, f"alive: {mutant.file}: {mutant.old!r} -> {mutant.new!r}\n{process.stdout[-2000:]}"
