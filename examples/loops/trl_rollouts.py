# needs: align-echo[train]
"""Two steps of TRL's GRPOTrainer on a game of ALFWorld, with the pocket model. Half a minute on a CPU, no GPU."""

from trl import GRPOConfig, GRPOTrainer

from align_echo.loops.trl import EpisodeRollouts
from align_echo.models.local.loading import pocket_folder

rollouts = EpisodeRollouts("alfworld", tasks=1, step_limit=8, max_tokens=16)
trainer = GRPOTrainer(
    str(pocket_folder()),
    args=GRPOConfig(
        "trl", num_generations=8, per_device_train_batch_size=8, temperature=1.2, max_steps=2, logging_steps=1,
        report_to=[], bf16=False,
    ),
    train_dataset=rollouts.dataset,
    rollout_func=rollouts,
    reward_funcs=rollouts.reward,
)
trainer.train()

steps = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
assert len(steps) == 2
for entry in steps:
    shares = {end: entry[f"episodes/{end}"] for end in ("won", "lost", "truncated", "broken")}
    assert sum(shares.values()) == 1 and entry["reward"] == shares["won"]  # noqa: PT018
    print(f"of 8 episodes {shares}, norm of the gradient {entry['grad_norm']:.3f}")
assert any(entry["grad_norm"] > 0 for entry in steps), "a group whose rewards are all equal teaches nothing"
