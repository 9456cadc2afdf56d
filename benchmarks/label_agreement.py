"""Which actions are right, by every rule that an environment has, and how often two rules agree.

    python -m benchmarks.label_agreement [--env NAME ...] [--tasks N] [--out DIR]

Plays training tasks twice: with the scripted novice, and with a player that takes the expert's action or a random one
at even odds, so that many states are seen and right actions occur. In each state the action that is played is labelled
by each rule of `critic.labels`. In ScienceWorld the expert says nothing once its path was left, so an episode ends
there; the genetics tasks, of which one try takes up to 20 s, are left out.

Prints Markdown tables (percent of the actions that both rules label, 95% intervals over tasks), then one JSON line: of
the expert's rule and the environment's default one, where they agree least: `value`, `n`; `baseline` is what chance
would give, `environments` holds every figure. `--out DIR` also gets it as summary.json.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

import align_echo
from align_echo.agents.novices import make_novice
from align_echo.critic.agreement import EnvironmentAgreement, LabelPair, RuleAgreement, agreement
from align_echo.critic.labels import Rule, default_rule, label
from align_echo.critic.verdict import Verdict
from align_echo.errors import MissingExtraError
from align_echo.evaluate.selection import pick_tasks
from align_echo.files import write_atomically
from align_echo.session import base_env, extend, start_view, take_turn
from align_echo.types import AgentReply, AgentView
from align_echo.wrappers.catalogue import environment, environments
from align_echo.wrappers.text_env import TextEnv
from align_echo.wrappers.webshop.pages import parse_action

TASKS = {"alfworld": 12, "webshop": 60, "scienceworld": 8}
"""Played by default."""

SLOW = "mendelian-genetics"
BUTTONS = ("buy now", "back to search", "< prev", "next >")
PARTICLES = ("to", "up", "at", "in", "on", "around")

Player = Callable[[TextEnv, AgentView], str]


class Labels:
    """Labels of played actions in one environment by all of its rules, and the seconds that each took."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.default = default_rule(environment(name))
        self.rules: tuple[Rule, ...] = ("expert", "nearer", "continues")
        if self.default != "nearer":
            self.rules = ("expert", "continues")
        self.actions: list[LabelPair] = []
        self.verdicts: list[dict[Rule, Verdict | None]] = []
        self.seconds: dict[Rule, list[float]] = {rule: [] for rule in self.rules}

    def play(self, env: gym.Env[str, str], player: Player, task: str) -> None:
        """Label each action of one episode."""
        view, over = start_view(env, task, "", seed=0), False
        while not over:
            action = player(base_env(env), view)
            self._label(env, view, action)
            step = take_turn(env, AgentReply(text=action, action=action))
            view, over = extend(view, step), step.terminated or step.truncated
            over = over or (self.name == "scienceworld" and self.verdicts[-1]["expert"] is None)

    def _label(self, env: gym.Env[str, str], view: AgentView, action: str) -> None:
        verdicts: dict[Rule, Verdict | None] = {}
        for rule in self.rules:
            start = time.perf_counter()
            verdicts[rule] = label(env, view, action, rule)
            self.seconds[rule].append(time.perf_counter() - start)
        self.verdicts.append(verdicts)
        self.actions.append(
            LabelPair(
                environment=self.name,
                task_id=view.task_id,
                action_type=action_type(self.name, action),
                first=None,
                second=None,
                explores=base_env(env).explores(view, action),
            )
        )

    def agreements(self) -> list[EnvironmentAgreement]:
        """Of every two rules, the expert's and the default one first."""
        rest: tuple[Rule, ...] = tuple(rule for rule in self.rules if rule not in ("expert", self.default))
        pairs: list[tuple[Rule, Rule]] = [("expert", self.default), *(("expert", rule) for rule in rest)]
        return [self._agreement(*pair) for pair in (*pairs, *((self.default, rule) for rule in rest))]

    def _agreement(self, first: Rule, second: Rule) -> EnvironmentAgreement:
        labelled = [
            action.model_copy(update={"first": verdicts[first], "second": verdicts[second]})
            for action, verdicts in zip(self.actions, self.verdicts, strict=True)
        ]
        return agreement(labelled, (first, second))[0]


def action_type(name: str, action: str) -> str:
    """The action's verb, or the button."""
    if name == "webshop":
        kind, argument = parse_action(action)
        return f"{kind}[{argument}]" if argument in BUTTONS else kind or "nothing"
    words = action.lower().split()
    return " ".join(words[: 2 if words[1:2] and words[1] in PARTICLES else 1]) or "nothing"


def novice(name: str) -> Player:
    """The scripted novice."""
    agent = make_novice(name)
    return lambda env, view: agent.act(view).action or ""


def mixed(env: TextEnv, view: AgentView) -> str:
    """The expert's action or a random one, at even odds; the same in the same place of an episode."""
    dice = random.Random(f"{view.task_id} {len(view.turns)}")
    expert = env.oracle().expert_action()
    if expert is not None and dice.random() < 0.5:
        return expert
    if env.state.admissible_actions:
        return dice.choice(sorted(env.state.admissible_actions))
    offered = env.offered()
    if offered is None:
        return "look"
    action = dice.choice(offered.templates)
    for index in range(action.count("{")):
        action = action.replace(f"{{{index}}}", dice.choice(offered.names))
    return action


def labelled(name: str, count: int) -> Labels:
    """The labels of an environment's training tasks, spread over the task types."""
    known = [task for task in align_echo.tasks(name) if not task.startswith(SLOW)]
    labels = Labels(name)
    env = align_echo.make(name)
    try:
        for task in pick_tasks(known, min(count, len(known)), task_type=environment(name).task_type):
            for player in (novice(name), mixed):
                labels.play(env, player, task)
    finally:
        env.close()
    return labels


# ---------------------------------------------------------------- report


def main() -> None:
    """Label, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", nargs="+", choices=list(environments()), help="only these")
    parser.add_argument("--tasks", type=int, help=f"training tasks of each (default {TASKS})")
    parser.add_argument("--out", type=Path, help="folder for summary.json")
    given = parser.parse_args()
    results: dict[str, Any] = {}
    first: list[EnvironmentAgreement] = []
    for name in given.env or environments():
        print(f"labelling {name}", file=sys.stderr, flush=True)
        try:
            labels = labelled(name, given.tasks or TASKS[name])
        except MissingExtraError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        compared = labels.agreements()
        first.append(compared[0])
        seconds = {rule: statistics.fmean(spent) for rule, spent in labels.seconds.items()}
        results[name] = {"seconds_a_label": seconds, "agreements": [pair.model_dump() for pair in compared]}
        print_tables(name, compared, seconds)
    if not results:
        raise SystemExit("no environment is installed")
    line = json.dumps(rounded(record(first, results)))
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        write_atomically(given.out / "summary.json", line + "\n")
    print(line)


def record(first: list[EnvironmentAgreement], results: dict[str, Any]) -> dict[str, Any]:
    """The last line: where the expert's rule and the default one agree least, and all figures."""
    least = min(
        (pair for pair in first if pair.all.agree),
        key=lambda pair: pair.all.agree.value if pair.all.agree else 0,
    )
    agree, by_chance = least.all.agree, least.all.by_chance
    assert agree is not None
    return {
        "name": f"agreement of the rules {' and '.join(least.rules)}, {least.environment}",
        "value": agree.value,
        "unit": "% of the actions that both label",
        "baseline": by_chance,
        "ratio": agree.value / by_chance if by_chance else None,
        "n": least.all.n,
        "ci95": agree.ci95,
        "environments": results,
    }


def print_tables(name: str, compared: list[EnvironmentAgreement], seconds: dict[Rule, float]) -> None:
    """A table of the pairs of rules, and one by type of action for the first pair."""
    print(f"\n{name}: " + ", ".join(f"{rule} {1e3 * spent:,.1f} ms a label" for rule, spent in seconds.items()))
    heading = "| {} | n | agree | by chance | both correct | first only | second only | both wrong | one cannot tell |"
    print("\n" + heading.format("rules") + "\n" + "|---" * 9 + "|")
    for pair in compared:
        rules = " and ".join(pair.rules)
        print_row(rules, pair.all)
        if pair.exploring.n:
            print_row(f"{rules}, exploring", pair.exploring)
            print_row(f"{rules}, not exploring", pair.other)
    print("\n" + heading.format(" and ".join(compared[0].rules)) + "\n" + "|---" * 9 + "|")
    for kind, part in compared[0].by_action_type.items():
        print_row(f"`{kind}`", part)


def print_row(name: str, part: RuleAgreement) -> None:
    """One line of a table."""
    share = "-" if part.agree is None else f"{part.agree.value:.1f}% {part.agree.interval()}"
    by_chance = "-" if part.by_chance is None else f"{part.by_chance:.1f}%"
    both = [part.counts[pair] for pair in ("correct/correct", "correct/wrong", "wrong/correct", "wrong/wrong")]
    cells = [name, part.n, share, by_chance, *both, sum(part.counts.values()) - part.n]
    print("| " + " | ".join(map(str, cells)) + " |")


def rounded(value: Any) -> Any:
    """The same with four digits of every figure."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
