"""The commands that are killed: small, but all of what the real ones do.

A job of another kind is one entry of `JOBS`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

_ALIGN_ECHO = (sys.executable, "-m", "align_echo_command")


@dataclass(frozen=True)
class Job:
    """A command, in which `{out}` stands for the folder that it writes, and that goes on when `--resume` is added.

    `files` are written to the folder in which it is started, by their names.
    """

    name: str
    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    launched: bool = False
    """Whether a launcher starts it as several processes."""

    def words(self, out: str, *, resume: bool) -> list[str]:
        """What is started."""
        return [word.replace("{out}", out) for word in self.command] + ["--resume"] * resume


_ECHO = """\
method: echo
steps: 3
collecting: {tasks: 2, samples: 2, turns: 6, reply_tokens: 12, critique_tokens: 90}
save_every: 1
threads: 1
"""
_SFT = """\
method: sft
steps: 3
collecting: {tasks: 4, turns: 12, reply_tokens: 16}
save_every: 1
threads: 1
"""


def _job(name: str, words: str, files: Mapping[str, str] | None = None) -> Job:
    return Job(name, (*_ALIGN_ECHO, *words.split(), "--out", "{out}"), files or {})


_TWO = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")

_ALL = (
    _job("evaluate", "evaluate --env alfworld --agent novice --tasks 6 --interface probe --compare --workers 1"),
    _job(
        "generate-interface",
        "generate-interface --env archive_task:ARCHIVE --agent clerk:Clerk --backend probe --iterations 2"
        " --tasks-per-iteration 4",
    ),
    _job("train-echo", "train --config job.yaml --env alfworld --model pocket --interface probe", {"job.yaml": _ECHO}),
    _job("train-sft", "train --config job.yaml --env archive_task:ARCHIVE --model pocket", {"job.yaml": _SFT}),
    Job(
        "train-echo-on-two",
        (
            *(*_TWO, *_ALIGN_ECHO[1:], "train", "--config", "job.yaml"),
            *("--env", "alfworld", "--model", "pocket", "--out", "{out}"),
        ),
        {"job.yaml": _ECHO.replace("turns: 6", "turns: 6, workers: 1")},
        launched=True,
    ),
    _job(
        "flywheel",
        "critic flywheel --env alfworld --model novice --states expert --rounds 2 --tasks 1 --test-tasks 1"
        " --candidates 2 --test-candidates 2 --epochs 1 --held-out 0 --config small",
    ),
)
JOBS = {job.name: job for job in _ALL}
"""By name."""
