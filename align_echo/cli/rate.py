"""The work of `align-echo critic evaluate`: a critic's opinion of every candidate of a collection, and its trial.

Left out: the figures (`flywheel/trial.py`), and how a critic is asked (`critic/scoring.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from align_echo.cli.agents import CHAT_AGENTS
from align_echo.cli.console import note
from align_echo.cli.critic_report import show_trial
from align_echo.cli.fit import rule_for
from align_echo.cli.plan import refuse_script
from align_echo.critic.labels import Rule
from align_echo.critic.scoring import Scorer, read_calibration
from align_echo.errors import MissingExtraError, ModelError, UsageError
from align_echo.flywheel.collection import read_collection
from align_echo.flywheel.labelling import Conversation, proposed
from align_echo.flywheel.trial import Opinion, Trial, states_of, trial
from align_echo.interface import write_atomically
from align_echo.models import ScriptedModel, load_model
from align_echo.models.names import folder_of
from align_echo.rollout import view_before
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import environment

WORKERS = 8


def rate_into(
    path: Path, name: str, collections: Sequence[Path], *, rule: Rule | None, base_url: str | None, seed: int
) -> Trial:
    """Put the critic on trial over all collections together; writes `summary.json`, a `Trial`.

    Raises `UsageError`, also where the rule labels nothing, and `ModelError` if the critic never gives a verdict.
    """
    if find_spec("sklearn") is None:
        raise MissingExtraError("a critic's report", "train")
    refuse_script("--critic", name)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path} is not an empty folder: name another --out")
    found = [read_collection(one) for one in collections]
    played = [trajectory for trajectories, _ in found for trajectory in trajectories]
    labelled = [labels for _, episodes in found for labels in episodes]
    chats = [chat_of(one) for one, (trajectories, _) in zip(collections, found, strict=True) for _ in trajectories]
    folder = folder_of(name)
    temperature = read_calibration(folder).temperature if folder else 1.0
    chosen = rule or rule_for({one.environment for one in played})
    if not states_of(played, labelled, [{}] * sum(len(one.steps) for one in played), chosen):
        raise UsageError(f"no state has candidates that are all labelled by the rule {chosen!r}: try another --rule")
    scorer = Scorer(load_model(name, base_url=base_url, seed=seed))
    note(f"asking {name} about {sum(len(proposed(step)) for one in played for step in one.steps):,} actions")
    pool = ThreadPoolExecutor(WORKERS)
    try:
        by_episode = list(pool.map(lambda pair: opinions_of(scorer, *pair), zip(played, chats, strict=True)))
    finally:
        pool.shutdown(cancel_futures=True)
    opinions = [one for episode in by_episode for one in episode]
    if not any(said.verdict or said.logit is not None for one in opinions for said in one.values()):
        raise ModelError(f"{name} said neither correct nor wrong of any action: it cannot be put on trial")
    result = trial(states_of(played, labelled, opinions, chosen), chosen, temperature=temperature, seed=seed)
    path.mkdir(parents=True, exist_ok=True)
    write_atomically(path / "summary.json", result.model_dump_json(indent=2) + "\n")
    show_trial(result)
    print(f"written: {path / 'summary.json'}")
    return result


def chat_of(collection: Path) -> Conversation:
    """The words in which the agent of a collection is asked. Raises `UsageError` if it is not known here."""
    try:
        agent = json.loads((collection / "config.json").read_text(encoding="utf-8"))["agent"]
        return CHAT_AGENTS[agent](ScriptedModel(())).conversation
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{collection / 'config.json'} does not say which agent played: collect anew") from error


def opinions_of(scorer: Scorer, trajectory: Trajectory, chat: Conversation) -> list[Mapping[str, Opinion]]:
    """What the critic says of the distinct candidates of each turn."""
    action_format = environment(trajectory.environment).action_format
    found: list[Mapping[str, Opinion]] = []
    for turn, step in enumerate(trajectory.steps):
        actions = proposed(step)
        view = view_before(trajectory, turn, action_format)
        told = [one.model_copy(update={"tokens": None}) for one in chat(view)]
        said = scorer.score(told, actions) if actions else []
        found.append({a: Opinion(one.verdict, one.logit) for a, one in zip(actions, said, strict=True)})
    return found
