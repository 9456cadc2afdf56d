"""RAFT as a method of align-echo: of several episodes of a task, imitate the best (Dong et al. 2023, arXiv 2304.06767).

Named in a config as `method: raft:METHOD`; `raft.yaml` beside this file is a whole run.
"""

from __future__ import annotations

from dataclasses import replace

from align_echo.rollout.session import Episode
from align_echo.train.method import Method, episodes_alone
from align_echo.train.rows import RolloutBatch, policy_row


def collect(tasks, stage, collecting):
    """Play `samples` episodes of each task and keep its best one, if that one scored anything."""
    played = stage.play([Episode(task, sample=sample) for task in tasks for sample in range(collecting.samples)])
    whole = [episode for episode in played if episode.fault is None and episode.steps]
    best = {}
    for episode in whole:
        if episode.score > 0 and (episode.task_id not in best or episode.score > best[episode.task_id].score):
            best[episode.task_id] = episode
    rows = tuple(replace(policy_row(episode, episode.task_id), expert=True) for episode in best.values())
    return RolloutBatch(rows=rows, steps=sum(len(episode.steps) for episode in played))


METHOD = Method("raft", collect, episodes_alone, imitates=True)
