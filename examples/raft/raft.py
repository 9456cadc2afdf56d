"""RAFT as a method of align-echo: of several episodes of a task, imitate the best (Dong et al. 2023, arXiv 2304.06767).

Named in a config as `collecting: {recipe: "raft:METHOD"}`; `raft.yaml` beside this file is a whole run.
"""

from __future__ import annotations

from dataclasses import replace

from align_echo.session import Episode
from align_echo.train.method import Method, episodes_alone
from align_echo.train.rows import Harvest, policy_row


def harvest(queries, stage, collecting):
    """Play `samples` episodes of each query and keep its best one, if that one scored anything."""
    played = stage.play([Episode(query, sample=sample) for query in queries for sample in range(collecting.samples)])
    whole = [episode for episode in played if episode.fault is None and episode.steps]
    best = {}
    for episode in whole:
        if episode.score > 0 and (episode.task_id not in best or episode.score > best[episode.task_id].score):
            best[episode.task_id] = episode
    rows = tuple(replace(policy_row(episode, episode.task_id), expert=True) for episode in best.values())
    return Harvest(rows=rows, steps=sum(len(episode.steps) for episode in played))


METHOD = Method("raft", harvest, episodes_alone, imitates=True)
