"""Are an interface's messages true on games it never saw? An adversary plays, and what it is told is tried.

The adversary names absent things, wrong numbers, things in its hand, wrong places, other words and letters, and says
things again; between that it walks at random or as the expert does. At each message the state is forked and the claim
tried; then the adversary obeys, to see whether it is sent in a circle. See `align_echo/align/audit`. Ctrl-C ends it
with what was found until then.

    python benchmarks/message_audit.py [--interface alfworld/probe] [--split valid_unseen] [--games N] [--turns 30]
"""

from __future__ import annotations

import argparse
import json
import random
import sys

import align_echo
from align_echo.align.audit.audit import Auditor
from align_echo.wrappers.catalogue import environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interface", default="alfworld/probe")
    parser.add_argument("--env", default=None, help="default: the folder of --interface")
    parser.add_argument("--split", default=None, help="default: the environment's test split")
    parser.add_argument("--games", type=int, default=None, help="default: all")
    parser.add_argument("--turns", type=int, default=30, help="steps of the walk in each game")
    parser.add_argument("--per-state", type=int, default=3, help="things said in each state of the walk")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    spec = environment(options.env or options.interface.split("/")[0])
    split = options.split or spec.test_split
    interface = align_echo.load_interface(options.interface, spec.contract)
    games = align_echo.tasks(spec.name, split=split)
    if options.games is not None:
        games = random.Random(options.seed).sample(games, min(options.games, len(games)))
    env = align_echo.make(spec.name, split=split, step_limit=10**6).unwrapped
    auditor = Auditor(env, interface, spec.is_invalid, seed=options.seed)  # type: ignore[arg-type]
    played = 0
    try:
        for played, game in enumerate(games, 1):
            auditor.play(game, turns=options.turns, per_state=options.per_state)
            print(f"{played} of {len(games)} games: {auditor.findings.messages} messages", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"stopped in game {played}: what follows is of the games so far", file=sys.stderr)
    findings = auditor.findings
    print("\n".join(findings.examples))
    print(
        json.dumps(
            {
                "name": "false claims of an interface",
                "value": findings.wrong,
                "unit": "claims that did not hold when tried",
                "n": findings.tried,
                "messages": findings.messages,
                "refusals": findings.refusals,
                "games": played,
                "claims": dict(findings.claims),
                "untried": dict(findings.untried),
                "false": dict(findings.false),
                "chains": dict(findings.chains),
            }
        )
    )
    env.close()
    sys.exit(1 if findings.wrong else 0)


if __name__ == "__main__":
    main()
