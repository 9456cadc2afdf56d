"""Audit report of an interface: each speaker on each game, with counts by kind of claim.

Intervals treat games as clusters, because claims of a game are similar. Not here: trying a claim (`audit.py`) and
terminal output (`cli/interface.py`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import gymnasium as gym

from align_echo.agents.catalogue import AGENTS
from align_echo.agents.players import build_agent, chat_model, choose_agent, require_expert
from align_echo.agents.spec import AgentSetting
from align_echo.align.run_folder import read_episodes
from align_echo.base.progress import SILENT, Progress
from align_echo.errors import UsageError, did_you_mean
from align_echo.evaluate.audit.audit import MAX_EXAMPLES, AuditFindings, Auditor, Refused
from align_echo.evaluate.audit.speakers import Speaker, adversary_speaks, chance_speaks, expert_slips
from align_echo.interface.contract import Interface
from align_echo.intervals import Estimate, clustered_rate
from align_echo.models.choosing import POCKET_ENVIRONMENTS, what_pocket_lacks
from align_echo.models.local import POCKET
from align_echo.registry import quantity
from align_echo.rollout.batches import run_episode
from align_echo.rollout.session import base_env
from align_echo.types import Agent, Frozen, Trajectory
from align_echo.wrappers.environment import EnvironmentSpec

ADVERSARY, RANDOM, EXPERT_SLIPS, RECORDED = "adversary", "random", "expert-slips", "recorded"

UNTESTED = 3
"""Exit status of an audit in which nothing was tested."""

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
    "worded": "these words",
    "unread": "not read",
    "told-needs": "told: this step first",
    "told-may": "told: maybe this step first",
    "told-instead": "told: these words instead",
    "told-nothing": "told: changes nothing",
    "told-locked": "told: no longer possible",
    "told-ends": "told: ends the episode",
    "told-forms": "told: known forms",
    "told-unread": "told: not read",
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
    """Audit with a speaker: kinds of claims and their truth. `spoken` counts refusals that a message answered, and
    `obeyed` how many of the `orders` were followed. `chains` counts endings of followed advice: "accepted", "circle",
    or the last message's kind; `circles` counts fruitless chains and `broken` turns on which the interface failed."""

    speaker: str
    games: int
    utterances: int
    refusals: int
    messages: int
    spoken: int
    orders: int
    obeyed: int
    rows: tuple[AuditRow, ...]
    total: AuditRow
    chains: dict[str, int]
    circles: int
    broken: int
    examples: tuple[str, ...]


class ToldRow(Frozen):
    """Rule told up front, with the trials that it stood and did not stand."""

    rule: str
    right: int
    wrong: int


class AuditReport(Frozen):
    """Result of an audit. `rules` were told up front. `stopped`: it was interrupted and holds partial results."""

    environment: str
    split: str
    interface: str
    seed: int
    turns: int
    per_state: int
    speakers: tuple[SpeakerAudit, ...]
    rules: tuple[ToldRow, ...] = ()
    stopped: bool = False

    @property
    def tried(self) -> int:
        """Number of claims that were tested; 0 where orders were given and none was obeyed."""
        if sum(each.orders for each in self.speakers) and not sum(each.obeyed for each in self.speakers):
            return 0
        return sum(each.total.right + each.total.wrong for each in self.speakers)

    @property
    def status(self) -> int:
        """Exit status: 1 if something was false, `UNTESTED` if nothing was tested, else 0."""
        return 1 if self.untrue else 0 if self.tried else UNTESTED

    @property
    def problem(self) -> str:
        """Return the problem in one line; "" if all tested claims were true and some were tested."""
        if self.untrue:
            return f"{self.untrue} claims did not hold when they were tried"
        if self.tried:
            return ""
        names = ("utterances", "messages", "obeyed", "orders")
        said, messages, obeyed, orders = (sum(getattr(each, name) for each in self.speakers) for name in names)
        told = f"{quantity(len(self.rules), 'rule')} told up front"
        counts = f"{said:,} things said, {messages:,} messages, {obeyed:,} of {orders:,} orders obeyed, {told}"
        return f"nothing was tested: {counts}"

    @property
    def untrue(self) -> int:
        """Number of false claims, circles and turns with a failed interface."""
        return sum(speaker.total.wrong + speaker.circles + speaker.broken for speaker in self.speakers)


def recorded_episodes(spec: EnvironmentSpec, folder: Path, split: str | None) -> list[Trajectory]:
    """Read the agents' own episodes of a run's folder, each sequence of actions once.

    Raises `UsageError` without any in this environment and split.
    """
    episodes: dict[tuple[str, str, tuple[str | None, ...]], Trajectory] = {}
    for episode in read_episodes(folder):
        if episode.environment == spec.name and split in (None, episode.split) and episode.fault is None:
            episodes.setdefault((episode.split, episode.task_id, _actions(episode)), episode)
    if not episodes:
        where = f" of {split}" if split else ""
        raise UsageError(f"{folder} holds no whole episode in {spec.name}{where}: name the folder of a run that played")
    return list(episodes.values())


def _actions(episode: Trajectory) -> tuple[str, ...]:
    return tuple(step.action for step in episode.steps if step.action is not None)


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
    recorded: Sequence[Trajectory] = (),
    turns: int = TURNS,
    per_state: int = PER_STATE,
    seed: int = 0,
    data_root: Path | None = None,
    progress: Progress = SILENT,
) -> AuditReport:
    """Test each claim of an interface to each speaker in a copy of the state.

    A speaker is "adversary", "random" or "expert-slips" in states of a walk, or "pocket" or an agent's name in its own
    episodes. `recorded` are agents' episodes, played again as the speaker "recorded". `refused` detects a refusal by
    its text (default: the environment's declaration, else its list of possible actions). `games=None` takes the full
    split (default: test). Ctrl-C returns partial results. Raises `UsageError` for an unavailable speaker, and the
    environment's own errors.
    """
    split = spec.check_split(split or spec.test_split)
    tasks = spec.tasks(split, data_root)
    if games is not None:
        tasks = random.Random(seed).sample(tasks, min(games, len(tasks)))
    any(map(spec.has_expert, tasks))  # who leads the walk; where it is not installed, that is said now
    names = list(dict.fromkeys(speakers))
    agents = {name: _agent(name, spec, split, tasks, data_root, seed) for name in names if name not in WALKERS}
    if EXPERT_SLIPS in names and not all(map(spec.has_expert, tasks)):
        raise UsageError(f"{spec.name} has no expert for some tasks of {split}: leave {EXPERT_SLIPS} out")
    done: dict[str, list[AuditFindings]] = {name: [] for name in (*names, *[RECORDED] * bool(recorded))}
    stopped = False

    def auditing(name: str, split: str, works: Sequence[Callable[[Auditor], None]]) -> None:
        """Do each piece of work in an environment of its own findings."""
        env = spec.make(split, data_root=data_root, step_limit=ENDLESS)
        expert = 1.0 if name == EXPERT_SLIPS else 0.4
        auditor = Auditor(base_env(env), interface, refused or spec.is_invalid, seed=seed, expert=expert)
        for number, work in enumerate(works, 1):
            progress.status(f"audit, {name}: game {number} of {len(works)}")
            auditor.findings = AuditFindings()
            done[name].append(auditor.findings)
            work(auditor)
        env.close()

    def walks(speaker: Speaker, task: str) -> Callable[[Auditor], None]:
        return lambda auditor: auditor.play(task, turns=turns, per_state=per_state, speaker=speaker)

    def plays(agent: Agent, env: gym.Env[str, str], task: str) -> Callable[[Auditor], None]:
        def play(auditor: Auditor) -> None:
            episode = run_episode(env, agent, task, split=split, action_format=spec.action_format, seed=seed)
            auditor.replay(task, _actions(episode), agent.name)

        return play

    def repeats(episode: Trajectory) -> Callable[[Auditor], None]:
        return lambda auditor: auditor.replay(episode.task_id, _actions(episode), episode.agent)

    try:
        for name in names:
            if name in WALKERS:
                auditing(name, split, [walks(WALKERS[name], task) for task in tasks])
                continue
            env = spec.make(split, interface=interface, data_root=data_root)
            auditing(name, split, [plays(agents[name], env, task) for task in tasks])
            env.close()
        for part in dict.fromkeys(episode.split for episode in recorded):
            auditing(RECORDED, part, [repeats(episode) for episode in recorded if episode.split == part])
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
        rules=_told_rows([findings for played in done.values() for findings in played]),
        stopped=stopped,
    )


WALKERS: dict[str, Speaker] = {ADVERSARY: adversary_speaks, RANDOM: chance_speaks, EXPERT_SLIPS: expert_slips}
"""Speakers in states of a walk; any other is an agent."""


def _agent(
    name: str, spec: EnvironmentSpec, split: str, tasks: Sequence[str], data_root: Path | None, seed: int
) -> Agent:
    """Build an agent. Raises `UsageError` if it is unavailable in these tasks."""
    _check_name(name)
    player = choose_agent(None if name == POCKET else name, POCKET if name == POCKET else None)
    if player.agent.needs_expert:
        require_expert(spec, split, tasks, data_root)
    model = None if player.model is None else chat_model(player.model, spec=spec, seed=seed)
    temperature = 1.0 if name == POCKET else None
    setting = AgentSetting(spec, split, data_root=data_root, seed=seed, model=model, temperature=temperature)
    return build_agent(player.agent, setting)


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
        spoken=sum(game.spoken for game in games),
        orders=sum(game.orders for game in games),
        obeyed=sum(game.obeyed for game in games),
        rows=tuple(_row(label, by_label[label], games) for label in labels),
        total=_row("all", tuple(CLAIMS), games),
        chains=dict(sorted(chains.items())),
        circles=sum(game.false["circle"] for game in games),
        broken=sum(game.false["broken"] for game in games),
        examples=tuple(example for game in games for example in game.examples)[:MAX_EXAMPLES],
    )


def _told_rows(games: Sequence[AuditFindings]) -> tuple[ToldRow, ...]:
    rules = dict.fromkeys(rule for game in games for rule in game.told)
    counts = {rule: [game.told[rule] for game in games if rule in game.told] for rule in rules}
    return tuple(
        ToldRow(rule=rule, right=sum(right for right, _ in pairs), wrong=sum(wrong for _, wrong in pairs))
        for rule, pairs in counts.items()
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
