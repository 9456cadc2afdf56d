"""How strongly each of ICRL's roles pulls at the weights that they share: `python -m benchmarks.learning.gradients`.

Plays harvests of the arm `icrl` of the study `alfworld` with the model before training. For each it computes the
gradient of either role's rows and of both, with a mean for each role ("apart") and with one mean over the tokens of
both ("together", paper 4, equation 6): norms, and the cosine between the policy's gradient and that of both. The last
line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Sequence

import torch

from align_echo.train.advantages import group_advantages
from align_echo.train.backbone import ROLES
from align_echo.train.batching import batches, scales
from align_echo.train.config import TrainConfig, checked_config, read_file
from align_echo.train.crew import RoleModels, find_sources, gather
from align_echo.train.forward import token_logprobs
from align_echo.train.loss import batch_loss
from align_echo.train.rows import Row
from align_echo.train.run import choose_tasks, local_stage, play_batch
from align_echo.wrappers.catalogue import environment, tasks
from benchmarks.learning.studies import study

Gradients = dict[str, torch.Tensor]
"""By role, and of "both": all weights in a row [W]."""


def gradients(crew: RoleModels, rows: Sequence[Row], config: TrainConfig, *, together: bool) -> Gradients:
    """Of one step on these rows."""
    compared = group_advantages([row.reward for row in rows], [(row.role, row.group) for row in rows])
    scale = scales(rows, config.step.normalisation, together=together)
    by_role: Gradients = {}
    for batch in batches(rows, compared.values, scale, tokens_per_batch=config.step.tokens_per_batch):
        model, weights = crew.backbone.activate(batch.role), crew.backbone.weights(batch.role)
        logprobs, _ = token_logprobs(model, batch.ids, batch.mask)
        loss = batch_loss(batch, logprobs, config.step.objective).loss
        parts = torch.autograd.grad(loss, weights)
        whole = torch.cat([part.flatten() for part in parts])
        by_role[batch.role] = by_role.get(batch.role, torch.zeros_like(whole)) + whole
    return by_role | {"both": sum(by_role.values(), torch.zeros(()))}


def figures(of: Gradients) -> dict[str, float]:
    """Norms by role, and the cosine between the policy's gradient and that of both."""
    norms = {f"{role} norm": float(of[role].norm()) for role in ROLES}
    return norms | {"cosine": float(torch.cosine_similarity(of["policy"], of["both"], dim=0))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harvests", type=int, default=3)
    given = parser.parse_args()
    config = checked_config(read_file(study("alfworld").arms["icrl"]), "icrl")
    torch.set_num_threads(2)
    spec = environment(config.env)
    split = spec.train_split
    crew, pool = gather(config, find_sources(config)), tasks(config.env, split=split)
    stage = local_stage(config, spec, crew, split, config.collecting.temperature)
    by_part: dict[str, list[float]] = defaultdict(list)
    for number in range(given.harvests):
        queries = choose_tasks(number, pool, config.collecting.tasks, config.seed)
        harvest = play_batch(config, queries, stage.at_step(number))
        tokens = {role: sum(sum(row.tokens.mask) for row in harvest.rows if row.role == role) for role in ROLES}
        share = tokens["critic"] / sum(tokens.values())
        print(f"harvest {number}: {len(harvest.rows)} rows, {share:.1%} of the tokens are the critic's")
        for name, together in (("apart", False), ("together", True)):
            measured = figures(gradients(crew, harvest.rows, config, together=together))
            print(f"  {name}: " + ", ".join(f"{what} {value:.3f}" for what, value in measured.items()))
            by_part[name].append(measured["cosine"])
    crew.close()
    baseline, value = (statistics.fmean(by_part[name]) for name in ("apart", "together"))
    last = {"name": "ICRL: cosine of a step with the policy's gradient", "value": value, "unit": "cosine"}
    print(json.dumps({**last, "baseline": baseline, "ratio": value / baseline, "n": given.harvests}))


if __name__ == "__main__":
    main()
