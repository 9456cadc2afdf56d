"""How often the shipped interface's hints are right, on games of floor plans it never saw.

The novice plays `valid_unseen` under the interface. Whenever an action is refused, the state is forked and the shortest
ways to make that action possible are found by trying (at most three actions, the probe's own experiment); a hint is
right if it is the first step of one of them, or if it says "already so" and that is so. Refusals that nothing within
reach would have helped are counted apart. Baseline: an allowed action that shares a name with the refused one, drawn
at random.

    python benchmarks/hint_precision.py [--games 60] [--interface alfworld/probe] [--agent-seed 0]
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from typing import Any

import align_echo
from align_echo.agents.novices.alfworld import house_novice
from align_echo.align.probe import runtime
from align_echo.align.probe.cases import situation, try_case
from align_echo.align.probe.emit import read_spec
from align_echo.align.probe.lab import Lab, LabState
from align_echo.align.probe.names import skeleton
from align_echo.intervals import wilson
from align_echo.rollout import run_tasks

SPLIT = "valid_unseen"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=60)
    parser.add_argument("--interface", default="alfworld/probe")
    parser.add_argument("--agent-seed", type=int, default=0)
    options = parser.parse_args()
    interface = align_echo.load_interface(options.interface)
    spec = read_spec(interface.source)
    if spec is None:
        raise SystemExit(f"{options.interface} was not written by the probe: there are no rules to check")
    games = random.Random(0).sample(align_echo.tasks("alfworld", split=SPLIT), options.games)
    played = run_tasks(
        lambda: align_echo.make("alfworld", split=SPLIT, interface=interface),
        house_novice(seed=options.agent_seed),
        games,
        split=SPLIT,
    )
    lab = Lab(align_echo.make("alfworld", split=SPLIT, step_limit=10**9).unwrapped)  # type: ignore[arg-type]
    rng = random.Random(0)
    counts: Counter[str] = Counter()
    by_template: Counter[tuple[str, str]] = Counter()
    for trajectory in played:
        state = lab.start(trajectory.task_id)
        for step in trajectory.steps:
            if step.action is None or state.over:
                continue
            if step.action not in state.admissible:
                verdict = judge_hint(lab, spec, state, step.action, rng, counts)
                by_template[skeleton(step.action)[0], verdict] += 1
            state = lab.after(state, step.action)
    report(counts, by_template)


def judge_hint(
    lab: Lab, spec: dict[str, Any], state: LabState, said: str, rng: random.Random, counts: Counter[str]
) -> str:
    """Count one refusal; returns the verdict."""
    history = situation(lab, spec, state, said)
    template, names = runtime.read(spec, history, said)
    action = runtime.write(template, names) if template else said
    known = template != "" and all(name in history["shape"] for name in names)
    decision = runtime.decide(spec, history, template, names, sure=action != said) if known else None
    if decision is None or decision[1] == "now":
        verdict = "rewritten" if decision and action in state.admissible else "wrong" if decision else "silent"
    else:
        case = try_case(lab, spec, state, action)
        related = [action for action in sorted(state.admissible) if set(skeleton(action)[1]) & set(names)]
        if case.outcome != "nothing":
            counts["baseline right"] += bool(related) and case.agrees(rng.choice(related))
        verdict = "hopeless" if case.outcome == "nothing" else "right" if case.agrees(decision[1]) else "wrong"
    counts[verdict] += 1
    return verdict


def report(counts: Counter[str], by_template: Counter[tuple[str, str]]) -> None:
    for (template, verdict), count in sorted(by_template.items()):
        print(f"{count:6d}  {verdict:10s} {template}")
    n = counts["right"] + counts["wrong"]
    precision, baseline = counts["right"] / max(n, 1), counts["baseline right"] / max(n, 1)
    rate = wilson(counts["right"], n)
    interval = f"{rate.value:.1f}% [{rate.low:.1f}, {rate.high:.1f}]"
    print(f"right {counts['right']} of {n} ({interval}); silent {counts['silent']}; ", end="")
    print(f"rewritten {counts['rewritten']}; hopeless {counts['hopeless']}")
    print(
        json.dumps(
            {
                "name": "hint precision on unseen floor plans",
                "value": round(precision, 4),
                "unit": "share of hints that are right",
                "baseline": round(baseline, 4),
                "ratio": round(precision / baseline, 2) if baseline else None,
                "n": n,
            }
        )
    )


if __name__ == "__main__":
    main()
