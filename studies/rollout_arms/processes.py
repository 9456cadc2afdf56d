"""The arm of processes: this package's rollout, with the model computed in processes of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from align_echo.models.local.chat import LocalModel
from align_echo.models.local.encoding import ChatEncoder
from align_echo.models.local.engine_process import EngineGroup, EngineSettings, ProcessEngine
from align_echo.rollout import run_tasks
from studies.rollout_arms.setting import SPEC, SPLIT, Played, Setting, Watch, make, player

TICKS = 100
"""Units of /proc/PID/stat in a second (Linux)."""


class InProcesses:
    """As `Ours`, with `EngineGroup` and `ProcessEngine` in place of the engine."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._encoder = ChatEncoder(setting.tokenizer)
        if setting.fixed:
            self._encoder.stop_ids = ()
        self._kept = tempfile.TemporaryDirectory(prefix="rollout-model-")  # removed with this arm
        folder = self._kept.name
        setting.model.save_pretrained(folder)
        setting.tokenizer.save_pretrained(folder)
        self._engines = {str(n): ProcessEngine(EngineSettings(folder, "processes")) for n in range(setting.processes)}
        self._fleet = EngineGroup(list(self._engines), lambda address: self._engines[address].wait_until_ready())

    def __call__(self, tasks: Sequence[str], seed: int) -> Played:
        agent = player(self._setting, LocalModel(self._fleet, self._encoder, seed=seed))
        watch, before = Watch(), self._cpu()
        played = run_tasks(
            partial(make, self._setting.turns),
            agent,
            tasks,
            split=SPLIT,
            action_format=SPEC.action_format,
            workers=self._setting.batch * self._setting.processes,
        )
        seconds, here = watch.read()
        there = [after - start for after, start in zip(self._cpu(), before, strict=True)]
        assert not any(trajectory.fault or trajectory.context_overflow for trajectory in played), (
            "an episode did not end by itself"
        )
        tokens = sum(trajectory.usage.completion_tokens or 0 for trajectory in played)
        steps = sum(len(trajectory.steps) for trajectory in played)
        result = Played(seconds, here + sum(there), tokens, len(played), steps)
        return replace(result, busiest=max(here, *there))

    def _cpu(self) -> list[float]:
        """CPU seconds of each process so far."""
        stats = [Path(f"/proc/{engine.pid}/stat").read_text() for engine in self._engines.values()]
        return [sum(map(int, stat.rpartition(")")[2].split()[11:13])) / TICKS for stat in stats]
