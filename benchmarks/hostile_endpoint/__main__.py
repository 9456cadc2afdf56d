"""What a command does at an endpoint that is broken or hostile: `python -m benchmarks.hostile_endpoint [FAULT ...]`.

Runs `align-echo evaluate` (4 tasks of ALFWorld, the vanilla agent, 4 workers) against a server on this machine that has
one fault, for each of them, without the pauses between attempts, and with a deadline of 1 s where it stalls. The key is
planted with a line break at its end. Prints a table in Markdown: what came of one request for a reply and of the
command, requests for each reply asked for, the size of the largest file kept, and whether the key stands in the output
or in any file; then one JSON line: `value` is the number of faults after which it does. Leaves with 1 if it is not 0.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from align_echo.cli.main import main as align_echo
from align_echo.evaluate.comparison import VariantComparison
from align_echo.models.endpoint import TIMEOUT_VARIABLE, URL_VARIABLE
from align_echo.models.retry import RetryPolicy
from benchmarks.hostile_endpoint.faults import FAULTS, TWICE, HostileAnswer
from benchmarks.hostile_endpoint.server import serving

KEY = "sk-planted-3f9a77c1"
TASKS = 4
COMMAND = ("evaluate", "--env", "alfworld", "--agent", "vanilla", "--model", "m")
LONGEST = 100
"""Characters of a command's last line that are shown."""


@dataclass(frozen=True)
class Outcome:
    """What a command did at one fault. `requests` are all, `replies` how many the agent asked for."""

    fault: HostileAnswer
    status: int
    told: str
    requests: int
    replies: int
    largest: int
    leaked: bool

    @property
    def row(self) -> str:
        message = self.told if len(self.told) <= LONGEST else f"{self.told[:LONGEST]} ..."
        shown = message.replace("|", "\\|").replace("<", "&lt;")
        each = self.requests / max(self.replies, 1)
        size = f"{self.largest / 1000:,.0f} kB"
        key = "**yes**" if self.leaked else "no"
        return f"| {self.fault.name} | {self.fault.comes_to} | {each:.3g} | {self.status} | {shown} | {size} | {key} |"


def outcome_of(fault: HostileAnswer) -> Outcome:
    """Run the command at this fault in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder, serving(fault.answering) as server:
        os.environ |= {URL_VARIABLE: server.url, TIMEOUT_VARIABLE: "1" if fault.attempts == TWICE else "60"}
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            arguments = [*COMMAND, "--tasks", str(TASKS), "--workers", str(TASKS), "--out", f"{folder}/run"]
            status = align_echo(arguments)
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
        written = "".join(file.read_text() for file in files) + out.getvalue() + err.getvalue()
        calls = Path(folder, "run", "calls.jsonl")
        return Outcome(
            fault=fault,
            status=status,
            told=_told(Path(folder, "run"), err.getvalue(), status).replace(server.url, "URL"),
            requests=len(server.requests),
            replies=len(calls.read_text().splitlines()) if calls.exists() else TASKS,
            largest=max((file.stat().st_size for file in files), default=0),
            leaked=KEY in written,
        )


def _told(run: Path, err: str, status: int) -> str:
    """The error in one line, or what the summary counts."""
    if status:
        message = err.strip().splitlines()[-1].partition("; what is finished")[0]
        return message.removeprefix("align-echo: ").removeprefix("the first 4 episodes were all broken: ")
    summary = VariantComparison.model_validate_json((run / "summary.json").read_bytes()).variants["none"]
    unparsed, cut_off = (
        "-" if share is None else f"{share.value:.0f}%" for share in (summary.unparsed, summary.cut_off)
    )
    counts = f"{summary.faults} faults, {unparsed} unparsed, {cut_off} cut off"
    return f"plays {summary.episodes} episodes: {counts}, {summary.context_overflows} overflows"


def _no_pause(self: RetryPolicy, attempt: int, after: float | None) -> float:
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fault", nargs="*", help=f"of: {', '.join(FAULTS)}; default: all")
    given = parser.parse_args()
    unknown = [name for name in given.fault if name not in FAULTS]
    if unknown:
        parser.error(f"no fault is called {unknown[0]!r}")
    os.environ["OPENAI_API_KEY"] = f"{KEY}\n"
    os.environ.pop("ALIGN_ECHO_API_KEY", None)
    RetryPolicy.pause = _no_pause  # type: ignore[method-assign]
    print("| The endpoint | one reply is | requests a reply | status | the command | largest file | key found |")
    print("|---|---|---|---|---|---|---|")
    leaks = 0
    for name in given.fault or FAULTS:
        outcome = outcome_of(FAULTS[name])
        leaks += outcome.leaked
        print(outcome.row, flush=True)
    print(json.dumps({"benchmark": "hostile_endpoint", "value": leaks, "faults": len(given.fault or FAULTS)}))
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
