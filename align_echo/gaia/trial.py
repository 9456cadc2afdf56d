"""Evaluate a critic: its verdict on every candidate of a collection, and the success of selection by it.

    config.json       the settings; a resumed trial must have the same
    opinions.jsonl    the critic's verdicts, episode by episode (`verdicts.py`)
    summary.json      `TrialResult`, written last

Not here: asking the critic (`critic/ask.py`).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import numpy.typing as npt
from pydantic import Field, InstanceOf, NonNegativeInt, PositiveInt

from align_echo.agents import options
from align_echo.agents.catalogue import AGENTS, agent_spec
from align_echo.agents.conversation import ChatAgent
from align_echo.agents.options import PayingConfig
from align_echo.agents.spec import AgentSetting
from align_echo.base.dice import Dice
from align_echo.base.files import read_text
from align_echo.base.plain_yaml import parse_json
from align_echo.base.progress import SILENT, Progress
from align_echo.critic.ask import WORDS, Critic, Label, Verdict, read_calibration
from align_echo.critic.best_of import RULE_ORDER, RULES, CandidateSet, SelectionRule
from align_echo.critic.calibration import CriticReport, LabelledVerdict, action_type, report
from align_echo.critic.labels import LABEL_RULES
from align_echo.errors import AgentError, UsageError, first_line
from align_echo.evaluate.folder import Config, EvaluationDir
from align_echo.evaluate.plan import refuse_script
from align_echo.gaia.collect import default_episode_rule, read_collection
from align_echo.gaia.examples import ActionExample, Conversation, LabelledEpisode, proposed_actions, turn_candidates
from align_echo.gaia.verdicts import RatedEpisode, collect_verdicts, without_repeats
from align_echo.intervals import Floats, Percent, Points, bootstrap, clustered_rate
from align_echo.models import CallLog, RecordingModel, ReplyCache, ScriptedModel, load_model
from align_echo.models.choosing import ModelName, read_name, refuse_idle_base_url
from align_echo.models.endpoint import LEAST_TOKENS
from align_echo.models.recording import get_weights
from align_echo.models.reply_tokens import with_reply_tokens
from align_echo.models.spending import RoleSpending, check_limits, is_paid, open_spending
from align_echo.run_dir import CONFIG
from align_echo.types import Candidate, Frozen, Trajectory
from align_echo.version import __version__
from align_echo.wrappers.catalogue import environment, recorded_environment

# ---------------------------------------------------------------- baselines of a critic

CONSTANT, TABLE, LOGPROB = "the better constant answer", "a table of actions without numbers", "the agent's own logprob"
Judge = Callable[[ActionExample], Label]


class BaselineComparison(Frozen):
    """A baseline on the critic's held-out actions: its accuracy in percent, and the critic's lead in points. Intervals
    are over tasks.
    """

    accuracy: Percent
    lead: Points


def compare_baselines(
    learned: Sequence[ActionExample],
    tested: Sequence[ActionExample],
    verdicts: Sequence[Label | None],
    rule: str,
    *,
    seed: int = 0,
) -> dict[str, BaselineComparison]:
    """Compare the critic with every baseline, by name. `verdicts` are the critic's on `tested`. Empty without test
    examples.
    """
    if not tested:
        return {}
    truth = [example.label(rule) for example in tested]
    tasks = [example.task_id for example in tested]
    critic_hits = [verdict == label for verdict, label in zip(verdicts, truth, strict=True)]
    by_judge = {}
    for name, judge in build_baselines(learned, tested, rule).items():
        baseline_hits = [judge(example) == label for example, label in zip(tested, truth, strict=True)]
        by_judge[name] = _compared(critic_hits, baseline_hits, tasks, seed)
    return by_judge


def build_baselines(learned: Sequence[ActionExample], tested: Sequence[ActionExample], rule: str) -> dict[str, Judge]:
    """Build the baselines by name. The log-probability baseline needs a log-probability for every action."""
    known = [(example, label) for example in learned if (label := example.label(rule)) is not None]
    count = Counter(label for _, label in known)
    weighted = [(example, label, 1 / count[label]) for example, label in known]
    constant = max(WORDS, key=Counter(example.label(rule) for example in tested).__getitem__)
    by_name: dict[str, Judge] = {CONSTANT: lambda proposed: constant, TABLE: build_table_judge(weighted)}
    if all(example.logprob is not None for example in (*learned, *tested)):
        least = threshold([(example.logprob or 0.0, label, weight) for example, label, weight in weighted])
        by_name[LOGPROB] = lambda proposed: "correct" if (proposed.logprob or 0.0) >= least else "wrong"
    return by_name


def without_numbers(action: str) -> str:
    """Replace all numbers in an action by "#"."""
    return re.sub(r"\d+", "#", action.lower())


def build_table_judge(weighted: Sequence[tuple[ActionExample, Label, float]]) -> Judge:
    """Build the table baseline: the verdict with more weight for an action without numbers; "wrong" for an unknown
    action.
    """
    sums: dict[str, dict[Label, float]] = defaultdict(lambda: dict.fromkeys(WORDS, 0.0))
    for example, label, weight in weighted:
        sums[without_numbers(example.action)][label] += weight
    table: Mapping[str, Label] = {action: max(WORDS, key=of.__getitem__) for action, of in sums.items()}
    return lambda proposed: table.get(without_numbers(proposed.action), "wrong")


def threshold(weighted: Sequence[tuple[float, Label, float]]) -> float:
    """Find the threshold with the most weight of correctly judged values; the lowest if several are equal.

    Infinite if it is best to call nothing correct.
    """
    ranked = sorted(weighted, key=lambda row: -row[0])
    best, most, gained = np.inf, 0.0, 0.0
    for index, (value, label, weight) in enumerate(ranked):
        gained += weight if label == "correct" else -weight
        last = index + 1 == len(ranked) or ranked[index + 1][0] < value
        if last and gained >= most:
            best, most = value, gained
    return float(best)


def _compared(
    critic_hits: Sequence[bool], baseline_hits: Sequence[bool], tasks: Sequence[str], seed: int
) -> BaselineComparison:
    indices = {task: index for index, task in enumerate(dict.fromkeys(tasks))}
    task_M = np.asarray([indices[task] for task in tasks])

    def by_task(values: Sequence[bool]) -> Floats:
        return np.bincount(task_M, weights=np.asarray(values, dtype=np.float64), minlength=len(indices)).astype(float)

    sums = {"critic": by_task(critic_hits), "baseline": by_task(baseline_hits), "actions": by_task([True] * len(tasks))}
    lead = bootstrap(
        sums, lambda of: 100 * (of["critic"] - of["baseline"]) / of["actions"], seed=seed, bounds=(-100, 100)
    )
    accuracy = clustered_rate(sums["baseline"].astype(int).tolist(), sums["actions"].astype(int).tolist())
    return BaselineComparison(accuracy=accuracy, lead=lead)


# ---------------------------------------------------------------- evaluate a critic

Flags = npt.NDArray[np.bool_]

CEILING: Final = "pass"
"""Name of pass@N in the place of a rule."""


@dataclass(frozen=True)
class JudgedState:
    """A state with candidates. `labels` are those of the labelled actions, `verdicts` the critic's."""

    task: str
    candidates: tuple[Candidate, ...]
    labels: Mapping[str, Label]
    verdicts: Mapping[str, Verdict]


class SelectionResult(Frozen):
    """Percent of states in which a correct action is chosen from the first `n` candidates, over tasks.

    `rule` names one of `best_of.RULES`, or "pass" for pass@n. `gain` is over the first candidate alone, in points.
    """

    rule: str
    candidates: PositiveInt
    success: Percent
    gain: Points


class TrialResult(Frozen):
    """A critic's report on the candidates of `states` with complete labels, and the success of selection by rule and
    number of candidates, up to the most available in all states.
    """

    label_rule: str
    critic: CriticReport
    states: NonNegativeInt
    curve: tuple[SelectionResult, ...]
    at_endpoints: dict[str, RoleSpending] = Field(default_factory=dict)


def collect_states(
    played: Sequence[Trajectory],
    labelled: Sequence[LabelledEpisode],
    verdicts: Sequence[Mapping[str, Verdict]],
    rule: str,
) -> list[JudgedState]:
    """Collect the states in which all actions have a label. `verdicts` are by turn, over all episodes in order.

    A state without any action counts as well: no rule can choose a correct one there.
    """
    by_turn = iter(verdicts)
    states = []
    for trajectory, labels in zip(played, labelled, strict=True):
        for step, actions in zip(trajectory.steps, labels.turns, strict=True):
            turn_verdicts = next(by_turn)
            known_labels = {action.action: label for action in actions if (label := action.label(rule)) is not None}
            no_action = bool(turn_candidates(step)) and not proposed_actions(step)
            if no_action or (known_labels and len(known_labels) == len(actions)):
                states.append(JudgedState(trajectory.task_id, turn_candidates(step), known_labels, turn_verdicts))
    return states


def measure_trial(
    states: Sequence[JudgedState], rule: str, *, picks: Sequence[str] = (), temperature: float = 1.0, seed: int = 0
) -> TrialResult:
    """Compute the report and the curve, with the registry's rules and these `picks`. Raises `UsageError` without any
    state.
    """
    if not any(state.labels for state in states):
        raise UsageError(f"no state has candidates that are all labelled by the rule {rule!r}")
    rows = [
        LabelledVerdict(state.task, action_type(action), label, verdict.label, verdict.logit)
        for state in states
        for action, label in state.labels.items()
        if (verdict := state.verdicts.get(action)) is not None
    ]
    return TrialResult(
        label_rule=rule,
        critic=report(rows, temperature, seed=seed),
        states=len(states),
        curve=tuple(curve(states, compared_rules(picks), temperature=temperature, seed=seed)),
    )


def compared_rules(picks: Sequence[str] = ()) -> list[str]:
    """Return the names of the rules to compare: those of the registry, and `picks` of the user (`module:Name`).

    Raises `UsageError` for one that is unknown or cannot be loaded.
    """
    for name in (*RULES.entries(), *picks):
        RULES.get(name)
    known = sorted(RULES.entries(), key=lambda name: RULE_ORDER.index(name) if name in RULE_ORDER else len(RULE_ORDER))
    return list(dict.fromkeys((*known, *picks)))


def curve(
    states: Sequence[JudgedState], rules: Sequence[str] | None = None, *, temperature: float = 1.0, seed: int = 0
) -> list[SelectionResult]:
    """Compute every rule's success at every number of candidates available in all states.

    A rule on log-probabilities takes part if all candidates have some, and with a critic if all verdicts have a logit.
    """
    largest = min(len(state.candidates) for state in states)
    likely = all(
        candidate.logprob is not None
        for state in states
        for candidate in state.candidates
        if candidate.action is not None
    )
    sure = all(verdict.logit is not None for state in states for verdict in state.verdicts.values())
    rules = [
        name
        for name in rules or compared_rules()
        if not (rule := RULES.get(name)).needs_logprobs or (likely and (sure or not rule.needs_judge))
    ]
    single = correct_choices(states, "first", 1)
    return [
        _success(rule, n, states, correct_choices(states, rule, n, temperature=temperature, seed=seed), single, seed)
        for n in range(1, largest + 1)
        for rule in (*rules, CEILING)
    ]


def correct_choices(
    states: Sequence[JudgedState], rule: str, n: int, *, temperature: float = 1.0, seed: int = 0
) -> Flags:
    """Return for each state [S] whether a rule's choice from the first n is correct; for `CEILING`, whether any is."""
    if rule == CEILING:
        return np.asarray([any(_is_right(state, action) for action in _actions(state, n)) for state in states])
    selection_rule = RULES.get(rule)
    return np.asarray([_is_right(state, _taken(selection_rule, state, n, temperature, seed)) for state in states])


def pick_candidate(
    rule: SelectionRule,
    actions: Sequence[str | None],
    verdicts: Mapping[str, Verdict],
    *,
    temperature: float,
    dice: Dice,
    logprobs: Sequence[Sequence[float] | None] = (),
) -> int:
    """Choose a candidate by a rule, with `verdicts` and `logprobs` if the rule needs them.

    Raises `UsageError` as the rules in `critic/best_of.py`, and for a rule that breaks.
    """
    judged = {action: verdict.at(temperature) for action, verdict in verdicts.items()} if rule.needs_judge else {}
    try:
        return rule.pick(CandidateSet(actions, dice, judged, logprobs))
    except UsageError:
        raise
    except Exception as error:
        reason = first_line(error) if isinstance(error, AgentError) else f"{type(error).__name__}: {first_line(error)}"
        raise UsageError(f"the rule of selection {rule.name} broke: {reason}") from error


def _taken(rule: SelectionRule, state: JudgedState, n: int, temperature: float, seed: int) -> str | None:
    actions = _actions(state, n)
    dice = Dice(f"{seed} {state.task} {actions}")
    logprobs = [None if candidate.logprob is None else [candidate.logprob] for candidate in state.candidates[:n]]
    return actions[pick_candidate(rule, actions, state.verdicts, temperature=temperature, dice=dice, logprobs=logprobs)]


def _actions(state: JudgedState, n: int) -> list[str | None]:
    return [candidate.action for candidate in state.candidates[:n]]


def _is_right(state: JudgedState, action: str | None) -> bool:
    return action is not None and state.labels.get(action) == "correct"


def _success(
    rule: str, n: int, states: Sequence[JudgedState], right_S: Flags, single_S: Flags, seed: int
) -> SelectionResult:
    index_by_task = {task: index for index, task in enumerate(dict.fromkeys(state.task for state in states))}
    task_S = np.asarray([index_by_task[state.task] for state in states])

    def by_task(values_S: Flags) -> Floats:
        return np.bincount(task_S, weights=values_S.astype(np.float64), minlength=len(index_by_task)).astype(np.float64)

    all_S = np.ones(len(states), dtype=np.bool_)
    sums = {"right": by_task(right_S), "single": by_task(single_S), "states": by_task(all_S)}
    success = bootstrap(sums, lambda of: 100 * of["right"] / of["states"], seed=seed, bounds=(0, 100))
    gain = bootstrap(sums, lambda of: 100 * (of["right"] - of["single"]) / of["states"], seed=seed, bounds=(-100, 100))
    return SelectionResult(rule=rule, candidates=n, success=success, gain=gain)


# ---------------------------------------------------------------- evaluate a critic

COMMAND = "critic evaluate"
PROGRESS_EVERY = 10
"""Episodes between two progress lines."""


LabelRuleName = Annotated[
    str | None,
    Field(description=f"Label rule: {', '.join(LABEL_RULES.entries())}, or module:NAME; default: the environment's."),
]
PickNames = Annotated[
    tuple[str, ...],
    Field(description="A rule of selection to compare with the registry's: module:NAME; repeatable."),
]


class TrialConfig(PayingConfig):
    """Options of `align-echo critic evaluate`."""

    judge: Annotated[str | InstanceOf[ModelName], Field(description="The critic: a model's name or folder.")]
    examples: Annotated[
        tuple[Path, ...],
        Field(min_length=1, description="A collection's folder; may be given several times."),
    ]
    rule: LabelRuleName = None
    pick: PickNames = ()
    env: Annotated[str | None, Field(description="Your own environment, if used: module:Name.")] = None
    agent: Annotated[str | None, Field(description="Your own agent, if used: module:Name.")] = None
    reasoning: options.Reasoning = False
    votes: Annotated[
        int | None, Field(ge=1, description="With --reasoning: verdicts per action; default: 1, greedy.")
    ] = None
    max_tokens: Annotated[
        int | None,
        Field(ge=LEAST_TOKENS, description="Most tokens of a critic's reasons, or of its thinking before a word."),
    ] = None
    base_url: options.BaseUrl = None
    seed: options.Seed = 0


def run_trial(
    config: TrialConfig, path: Path, *, resume: bool = False, progress: Progress = SILENT
) -> TrialResult:
    """Evaluate the critic on all collections together, each episode once; writes `summary.json`, a `TrialResult`.

    Raises `UsageError`, also if the rule labels nothing or the critic never gives a verdict, and `ModelError` for a
    model that cannot be asked.
    """
    if config.votes is not None and not config.reasoning:
        raise UsageError("--votes counts reasoned verdicts: add --reasoning")
    if config.env is not None:
        environment(config.env)
    if config.agent is not None:
        agent_spec(config.agent)
    compared_rules(config.pick)
    critic_name, votes = read_name(config.judge, config.base_url), (config.votes or 1) if config.reasoning else None
    refuse_script("--judge", critic_name)
    refuse_idle_base_url(config.base_url, [critic_name])
    if config.max_tokens is not None:
        if critic_name.is_local and votes is None:
            raise UsageError("--max-tokens is for what a critic writes: add --reasoning, or leave it out")
        critic_name = with_reply_tokens(critic_name, "judge", {"judge": config.max_tokens})
    check_limits(config.spending_limits, [critic_name])
    all_episodes = [episode for collection in config.examples for episode in read_episodes(collection)]
    episodes = without_repeats(all_episodes)
    played, labelled = [episode.trajectory for episode in episodes], [episode.labels for episode in episodes]
    pairs = zip(played, labelled, strict=True)
    chosen = LABEL_RULES.get(config.rule).name if config.rule else default_episode_rule(pairs)
    no_verdicts: list[dict[str, Verdict]] = [{}] * sum(len(trajectory.steps) for trajectory in played)
    if not any(state.labels for state in collect_states(played, labelled, no_verdicts, chosen)):
        raise UsageError(f"no state has candidates that are all labelled by the rule {chosen!r}: try another --rule")
    if critic_name.folder and _has_vision(critic_name.folder):
        raise UsageError(f"{critic_name} is a critic on screens: put it on trial with align-echo critic gui-steps")
    temperature = read_calibration(critic_name.folder).temperature if critic_name.folder and votes is None else 1.0
    spending = open_spending(config.spending_limits, [critic_name], path)
    progress.watch(spending)
    model = load_model(critic_name, seed=config.seed)
    if is_paid(critic_name):
        log, cache = CallLog(path / "calls.jsonl"), ReplyCache(path / "cache")
        model = RecordingModel(model, role="judge", cache=cache, log=log, meter=spending.meter(critic_name))
    critic = Critic(model, temperature, votes, max_tokens=critic_name.reply_tokens("judge"))
    record: Config = {
        "command": COMMAND,
        "align_echo": __version__,
        "critic": get_weights(model) or critic_name.text,
        "base_url": critic_name.base_url,
        **critic_name.chat.on_record,
        "asked": {**critic.describe()},
        "rule": chosen,
        "seed": config.seed,
        **({"pick": list(config.pick)} if config.pick else {}),
        "episodes": hashlib.sha256(" ".join(episode.digest for episode in episodes).encode()).hexdigest(),
    }
    run_dir = EvaluationDir(path, record, resume=resume)
    run_dir.check()
    if len(episodes) < len(all_episodes):
        repeated = len(all_episodes) - len(episodes)
        progress.say(f"{repeated} episodes are in several of the collections: each counts once")
    actions = sum(len(proposed_actions(step)) for trajectory in played for step in trajectory.steps)
    progress.say(f"asking {critic_name} about {actions:,} actions")
    with run_dir:
        by_turn = collect_verdicts(
            critic, episodes, path, on_episode=lambda done: _report_progress(progress, done, len(episodes))
        )
        if not any(verdict.has_answer for turn in by_turn for verdict in turn.values()):
            verdicts = [verdict for turn in by_turn for verdict in turn.values()]
            if failed := [verdict for verdict in verdicts if verdict.fault is not None]:
                why = f"{critic_name} gave no verdict, and broke in {len(failed)} of {len(verdicts)}"
                raise UsageError(f"{why}; the first: {failed[0].problem}; --resume asks again")
            raise UsageError(f"{critic_name} said neither correct nor wrong of any action: it cannot be put on trial")
        states = collect_states(played, labelled, by_turn, chosen)
        result = measure_trial(states, chosen, picks=config.pick, temperature=temperature, seed=config.seed)
        result = result.model_copy(update={"at_endpoints": spending.by_role})
        run_dir.finish(result)
    return result


def _has_vision(folder: Path) -> bool:
    """Return whether the model of a folder has a vision part."""
    try:
        config = parse_json(read_text(folder / "config.json"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "vision_config" in config


def _report_progress(progress: Progress, done: int, count: int) -> None:
    if done % PROGRESS_EVERY == 0 and done < count:
        progress.say(f"{done} of {count} episodes")


def read_episodes(collection: Path) -> list[RatedEpisode]:
    """Read the episodes of a finished collection. Raises as `read_collection` and `conversation_for` do."""
    played, labelled = read_collection(collection)
    chat = conversation_for(collection)
    return [RatedEpisode(trajectory, labels, *chat) for trajectory, labels in zip(played, labelled, strict=True)]


def conversation_for(collection: Path) -> tuple[Conversation, str]:
    """Return the conversation function of a collection's agent, and the action format of its environment.

    Raises `UsageError` for an unknown agent.
    """
    try:
        config = parse_json(read_text(collection / CONFIG))
        agent, env, split = config["agent"], config["environment"], config["split"]
        tools = "tools" in (config.get("agent_details") or {})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{collection / 'config.json'} does not say which agent played: collect anew") from error
    source = str(collection / CONFIG)
    spec = recorded_environment(env, source, f"add --env {env}")
    recorded_agent = AGENTS.recorded(agent, source, f"add --agent {agent}")
    player = recorded_agent.build(AgentSetting(spec, split, model=ScriptedModel(()), tools=tools))
    if not isinstance(player, ChatAgent):
        raise UsageError(f"the agent {agent} of {collection} asks no model: collect anew")
    return player.conversation, spec.action_format
