"""Audit report of an interface: each speaker on each game, with counts by kind of claim.

Intervals treat games as clusters, because claims of a game are similar. Not here: trying a claim (`audit.py`) and
terminal output (`cli/interface.py`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from align_echo.agents.catalogue import AGENTS
from align_echo.agents.players import build_agent, chat_model, choose_agent, require_expert
from align_echo.agents.spec import AgentSetting
from align_echo.align.audit.audit import (
    MAX_EXAMPLES,
    AuditFindings,
    Auditor,
    Refused,
    Speaker,
    adversary_speaks,
    agent_speaks,
    chance_speaks,
    expert_slips,
)
from align_echo.base.progress import SILENT, Progress
from align_echo.errors import UsageError, did_you_mean
from align_echo.interface.contract import Interface
from align_echo.intervals import Estimate, clustered_rate
from align_echo.models.choosing import POCKET_ENVIRONMENTS, what_pocket_lacks
from align_echo.models.local import POCKET
from align_echo.rollout.session import base_env
from align_echo.types import Frozen
from align_echo.wrappers.environment import EnvironmentSpec

ADVERSARY, RANDOM, EXPERT_SLIPS = "adversary", "random", "expert-slips"

CLAIMS = {
    "do": "this step first",
    "form": "this is how it is written",
    "then": "then these words",
    "write": "these words instead",
    "already": "already so",
    "unseen": "not seen so far",
    "absent": "not here",
    "after": "seen there",
    "elsewhere": "seen there",
    "alone": "name stands alone",
    "forms": "known forms",
    "only": "known forms",
    "some": "known forms",
    "unread": "not read",
}
"""Report labels for kinds of claims (`audit.py`)."""

TURNS = 30
PER_STATE = 3
ENDLESS = 10**6


class AuditRow(Frozen):
    """Claims of a kind: true, false and untestable. `share` is the percentage of true ones among those tested, with
    games as clusters; None without any."""

    claim: str
    right: int
    wrong: int
    cannot_tell: int
    share: Estimate | None


class SpeakerAudit(Frozen):
    """Audit with a speaker: kinds of claims and their truth. `chains` counts endings of followed advice: "accepted",
    "circle", or the last message's kind; `circles` counts fruitless chains and `broken` turns on which the interface
    failed."""

    speaker: str
    games: int
    utterances: int
    refusals: int
    messages: int
    rows: tuple[AuditRow, ...]
    total: AuditRow
    chains: dict[str, int]
    circles: int
    broken: int
    examples: tuple[str, ...]


class AuditReport(Frozen):
    """Result of an audit. `stopped`: it was interrupted and holds partial results."""

    environment: str
    split: str
    interface: str
    seed: int
    turns: int
    per_state: int
    speakers: tuple[SpeakerAudit, ...]
    stopped: bool = False

    @property
    def tried(self) -> int:
        """Number of testable claims and of fully followed messages."""
        return sum(each.total.right + each.total.wrong + sum(each.chains.values()) for each in self.speakers)

    @property
    def problem(self) -> str:
        """Return the problem in one line; "" if all tested claims were true and some were tested."""
        if self.untrue:
            return f"{self.untrue} claims did not hold when they were tried"
        if self.tried:
            return ""
        utterances = sum(each.utterances for each in self.speakers)
        messages = sum(each.messages for each in self.speakers)
        counts = f"{utterances:,} things said, {messages:,} messages"
        return f"nothing was tried, so nothing is shown: {counts}, no claim tried"

    @property
    def untrue(self) -> int:
        """Number of false claims, circles and turns with a failed interface."""
        return sum(speaker.total.wrong + speaker.circles + speaker.broken for speaker in self.speakers)


def default_speakers(spec: EnvironmentSpec) -> list[str]:
    """List the speakers available in an environment."""
    pocket = [POCKET] if spec.name in POCKET_ENVIRONMENTS and not what_pocket_lacks() else []
    expert = [EXPERT_SLIPS] if spec.tasks(spec.test_split) and spec.has_expert(spec.tasks(spec.test_split)[0]) else []
    return [ADVERSARY, RANDOM, *pocket, *expert]


def audit_interface(
    spec: EnvironmentSpec,
    interface: Interface,
    speakers: Sequence[str],
    *,
    refused: Refused | None = None,
    split: str | None = None,
    games: int | None = None,
    turns: int = TURNS,
    per_state: int = PER_STATE,
    seed: int = 0,
    data_root: Path | None = None,
    progress: Progress = SILENT,
) -> AuditReport:
    """Test each claim of an interface to each speaker in a copy of the state.

    A speaker is "adversary", "random", "expert-slips", "pocket" or an agent's name. `refused` detects a refusal by its
    text (default: the environment's declaration, else its list of possible actions). `games=None` takes the full split
    (default: test). Ctrl-C returns partial results. Raises `UsageError` for an unavailable speaker, and the
    environment's own errors.
    """
    split = spec.check_split(split or spec.test_split)
    tasks = spec.tasks(split, data_root)
    if games is not None:
        tasks = random.Random(seed).sample(tasks, min(games, len(tasks)))
    any(map(spec.has_expert, tasks))  # who leads the walk; where it is not installed, that is said now
    voices = {name: _speaker(name, spec, split, tasks, data_root, seed) for name in dict.fromkeys(speakers)}
    done: dict[str, list[AuditFindings]] = {name: [] for name in voices}
    stopped = False
    try:
        for name, speaker in voices.items():
            env = spec.make(split, data_root=data_root, step_limit=ENDLESS)
            auditor = Auditor(
                base_env(env),
                interface,
                refused or spec.is_invalid,
                seed=seed,
                expert=1.0 if name == EXPERT_SLIPS else 0.4,
                action_format=spec.action_format,
            )
            for number, task in enumerate(tasks, 1):
                progress.status(f"audit, {name}: game {number} of {len(tasks)}")
                auditor.findings = AuditFindings()
                done[name].append(auditor.findings)
                auditor.play(task, turns=turns, per_state=per_state, speaker=speaker)
            env.close()
    except KeyboardInterrupt:
        stopped = True
    return AuditReport(
        environment=spec.name,
        split=split,
        interface=f"{interface.name}@{interface.content_hash}",
        seed=seed,
        turns=turns,
        per_state=per_state,
        speakers=tuple(_summed(name, findings) for name, findings in done.items()),
        stopped=stopped,
    )


def _speaker(
    name: str, spec: EnvironmentSpec, split: str, tasks: Sequence[str], data_root: Path | None, seed: int
) -> Speaker:
    """Build a speaker. Raises `UsageError` if it is unavailable in these tasks."""
    if name in (ADVERSARY, RANDOM):
        return adversary_speaks if name == ADVERSARY else chance_speaks
    if name == EXPERT_SLIPS:
        if not all(map(spec.has_expert, tasks)):
            raise UsageError(f"{spec.name} has no expert for some tasks of {split}: leave {EXPERT_SLIPS} out")
        return expert_slips
    _check_name(name)
    player = choose_agent(None if name == POCKET else name, POCKET if name == POCKET else None)
    if player.agent.needs_expert:
        require_expert(spec, split, tasks, data_root)
    model = None if player.model is None else chat_model(player.model, spec=spec, seed=seed)
    temperature = 1.0 if name == POCKET else None
    setting = AgentSetting(spec, split, data_root=data_root, seed=seed, model=model, temperature=temperature)
    return agent_speaks(build_agent(player.agent, setting))


def _check_name(name: str) -> None:
    """Check a speaker's name. Raises `UsageError` with the known names."""
    known = list(dict.fromkeys((ADVERSARY, RANDOM, POCKET, EXPERT_SLIPS, *AGENTS.entries())))
    if ":" not in name and name not in known:
        hint = did_you_mean(name, known)
        raise UsageError(
            f"unknown speaker {name!r}; {hint}known: {', '.join(known)}; an agent of your own is module:Name"
        )


# ---------------------------------------------------------------- summing


def _summed(name: str, games: Sequence[AuditFindings]) -> SpeakerAudit:
    kinds = {kind for game in games for kind in game.claims}
    labels = [label for label in dict.fromkeys(CLAIMS.values()) if any(CLAIMS[kind] == label for kind in kinds)]
    by_label = {label: [kind for kind in CLAIMS if CLAIMS[kind] == label] for label in labels}
    chains = sum((game.chains for game in games), Counter[str]())
    return SpeakerAudit(
        speaker=name,
        games=len(games),
        utterances=sum(game.utterances for game in games),
        refusals=sum(game.refusals for game in games),
        messages=sum(game.messages for game in games),
        rows=tuple(_row(label, by_label[label], games) for label in labels),
        total=_row("all", tuple(CLAIMS), games),
        chains=dict(sorted(chains.items())),
        circles=sum(game.false["circle"] for game in games),
        broken=sum(game.false["broken"] for game in games),
        examples=tuple(example for game in games for example in game.examples)[:MAX_EXAMPLES],
    )


def _row(label: str, kinds: Sequence[str], games: Sequence[AuditFindings]) -> AuditRow:
    untold = sum(_count(game.untried, kinds) for game in games)
    wrong = [_count(game.false, kinds) for game in games]
    tried = [_count(game.claims, kinds) - _count(game.untried, kinds) for game in games]
    pairs = [(size - false, size) for false, size in zip(wrong, tried, strict=True) if size]
    share = clustered_rate([right for right, _ in pairs], [size for _, size in pairs]) if pairs else None
    return AuditRow(
        claim=label, right=sum(tried) - sum(wrong), wrong=sum(wrong), cannot_tell=untold, share=share
    )


def _count(counts: Mapping[str, int], kinds: Sequence[str]) -> int:
    return sum(counts[kind] for kind in kinds)
