"""The work of `align-echo critic collect`: play with candidates, label them, write examples.

Left out: what the folder holds (`flywheel/collection.py`), and learning from it (`fit.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from align_echo.agents.conversation import ChatAgent
from align_echo.agents.players import (
    Player,
    about,
    build_agent,
    choose_player,
    details_of,
    require_expert,
    workers_for,
)
from align_echo.agents.privileged import EXPERT
from align_echo.agents.spec import AgentSetting
from align_echo.cli.console import Display, note, resumable, stdout
from align_echo.critic.best_of import BestOf
from align_echo.critic.labels import rules_of
from align_echo.critic.led import Led
from align_echo.critic.selection import CRITIC, FIRST
from align_echo.errors import UsageError
from align_echo.evaluate.cast import Models, build_player, config_of
from align_echo.evaluate.comparison import BASELINE
from align_echo.evaluate.folder import EvaluationFolder, check_folder
from align_echo.evaluate.plan import SELF, Plan, Truncation, refuse_script
from align_echo.evaluate.playing import play_part
from align_echo.evaluate.tables import plain_table
from align_echo.flywheel.collection import PART, Collected, finish, label_all
from align_echo.flywheel.examples import require_parquet
from align_echo.models.names import is_local
from align_echo.session import try_reset
from align_echo.trouble import tell
from align_echo.types import Agent
from align_echo.wrappers.catalogue import environment

TOP_K, TOP_P = 30, 0.8
"""GAIA's (paper 3, section 4.1)."""

States = Literal["agent", "expert", "mixed"]
"""Whose actions are carried out: the candidates that are sent, or the expert's, as in GAIA's datasets; or those of
either in half of the episodes.
"""

OWN = {"expert": 0.0, "mixed": 0.5}
"""Share of the episodes that the agent plays alone, where an expert leads."""


@dataclass(frozen=True)
class Drawing:
    """How candidates are drawn; `guide` names the critic that takes one of them, "self" the agent's own model, None for
    the first.

    `top_k` and `top_p` None are the paper's for a local model; at an endpoint they are its own.
    """

    candidates: int
    temperature: float
    top_k: int | None
    top_p: float | None
    guide: str | None
    states: States = "agent"

    def truncation(self, model: str | None) -> Truncation | None:
        """What a model of a name draws from; None for all."""
        asked = self.top_k is not None or self.top_p is not None
        if not asked and (model is None or not is_local(model)):
            return None
        return Truncation(TOP_K if self.top_k is None else self.top_k, TOP_P if self.top_p is None else self.top_p)

    def judge(self, player: Player) -> str | None:
        """The name of the model that judges candidates, as `choose_judge` gives it. Raises `UsageError` for what cannot
        be drawn or judged so.
        """
        if not player.agent.asks_model:
            raise UsageError(f"the agent {player.agent.name} asks no model and cannot draw: name another with --agent")
        if not math.isfinite(self.temperature) or (self.candidates > 1 and self.temperature == 0):
            raise UsageError(f"--candidates {self.candidates} needs a --temperature above 0, not {self.temperature}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"--top-p is above 0 and at most 1 (off), not {self.top_p}")
        if self.guide is None:
            return None
        if self.candidates == 1:
            raise UsageError("--guide needs candidates to take from: --candidates above 1")
        refuse_script("--guide", player.model if self.guide == SELF else self.guide)
        return None if self.guide in (SELF, player.model) else self.guide


def collect_into(
    path: Path,
    env: str,
    *,
    agent: str | None,
    model: str | None,
    split: str,
    task_ids: Sequence[str],
    samples: int,
    drawing: Drawing,
    interface: str,
    base_url: str | None,
    seed: int,
    workers: int | None,
    data_root: Path | None,
    resume: bool,
    number: int = 1,
) -> Collected:
    """Play tasks of `split`, label and write a collection; what the folder has is not made again.

    Raises as `evaluate` does.
    """
    require_parquet()
    spec = environment(env)
    spec.check_split(split)
    if drawing.states in OWN:
        require_expert(spec, split, task_ids, data_root)
    player = choose_player(agent, model, (spec.name,))
    plan = Plan(
        spec=spec,
        split=split,
        interface=interface,
        variants={BASELINE: spec.interface(interface)},
        task_ids=list(task_ids),
        player=player,
        base_url=base_url,
        seed=seed,
        workers=workers or workers_for(player),
        data_root=data_root,
        temperature=drawing.temperature,
        samples=samples,
        best_of=drawing.candidates,
        judge=drawing.judge(player),
        pick=CRITIC if drawing.guide else FIRST,
        truncation=drawing.truncation(player.model),
    )
    models = Models(plan, path)
    made = build_player(plan, models)
    if not isinstance(made, BestOf | ChatAgent):
        raise UsageError(f"the agent {player.agent.name} asks no model: candidates are a chat model's replies")
    chat = made.agent if isinstance(made, BestOf) else made
    truncation = plan.truncation
    config = {
        **config_of(plan, made),
        "command": "critic collect",
        "top_k": truncation.top_k if truncation else None,
        "top_p": truncation.top_p if truncation else None,
        "states": drawing.states,
        "round": number,
    }
    actor: Agent = made
    if drawing.states in OWN:
        expert = build_agent(EXPERT, AgentSetting(spec, split, data_root, seed))
        actor = Led(made, expert, own=OWN[drawing.states])
    check_folder(path, config, resume=resume)
    try_reset(spec, plan.task_ids[0], split=split, data_root=data_root)
    folder = EvaluationFolder(path, config, resume=resume)
    note(about(player, details_of(made)))
    (chosen,) = plan.variants.values()
    with resumable(path), Display() as display:
        played = play_part(
            plan, actor, chosen, plan.episodes, part=PART, title="episodes", folder=folder, progress=display
        )
        labelled = label_all(
            lambda: spec.make(split, interface=chosen, data_root=data_root),
            played,
            path,
            rules=rules_of(spec),
            on_episode=lambda number: display.status(f"labelling the candidates: episode {number} of {len(played)}"),
        )
        weights = made.describe().get("weights.agent", "")
        collected = finish(
            played, labelled, chat.conversation, path, action_format=spec.action_format, weights=weights, number=number
        )
    _show(collected)
    for line in tell({interface: collected.conduct}):
        print(line)
    print(f"written: {path / 'examples.parquet'}, and the episodes and labels beside it")
    return collected


def _show(collected: Collected) -> None:
    rate = collected.success_rate
    played = f"{collected.episodes} episodes of {collected.tasks} tasks ({collected.faults} more broke)"
    print(f"{played}, {rate.value:.1f}% [{rate.ci95[0]:.0f}, {rate.ci95[1]:.0f}] won")
    print(f"{collected.turns:,} turns, {collected.candidates:,} candidates, {collected.examples:,} distinct examples")
    if collected.unlabelled:
        print(f"{collected.unlabelled:,} turns have no labels: they did not come out again as they had, or broke twice")
    table = plain_table("labels by rule")
    for head in ("rule", "correct", "wrong", "cannot tell"):
        table.add_column(head)
    for rule, one in collected.labels.items():
        if one.correct or one.wrong:
            table.add_row(rule, f"{one.correct:,}", f"{one.wrong:,}", f"{one.unknown:,}")
    stdout().print(table)
