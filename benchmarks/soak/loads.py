"""What a soak does again and again: whole commands in this process, most of them under a fault.

A load is a function of a folder of its own and a source of chance; what it did not expect it raises.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path

import align_echo
from align_echo.cli.main import main
from align_echo.errors import EngineError
from align_echo.evaluate.comparison import VariantComparison
from align_echo.models.endpoint import TIMEOUT_VARIABLE, URL_VARIABLE
from benchmarks.hostile_endpoint.faults import FAULTS, TWICE
from benchmarks.hostile_endpoint.server import serving
from benchmarks.soak.holding import below

Load = Callable[[Path, random.Random], str]
"""Says what it did, in a word or two."""

HOSTILE = {
    "endless": "while True:\n        pass",
    "memory": "x = 'a'\n    while True:\n        x += x",
    "recursion": "return WrapStep(env, init_obs, task, agent_action, logger)",
    "raise": "raise ValueError(agent_action, 1)",
    "exit": "raise SystemExit(3)",
    "file": "return open('/etc/passwd').read(), 0, False",
    "long calls": "x = 'a' * 6_000_000\n    for _ in range(19):\n        try:\n            env.step([x])\n"
    "        except Exception:\n            pass\n    return 'x', 0, False",
    "forged": "obs, *_ = env.step([agent_action])\n    return obs, 1.0, True",
    "control characters": "obs, *_ = env.step([agent_action])\n    return '\\x1b[2J\\x00' + obs, 0, False",
}
"""Bodies of `WrapStep`."""

_INTERFACE = (
    "def InferRules(init_obs, task):\n    return ''\n\n\n"
    "def WrapStep(env, init_obs, task, agent_action, logger):\n    {}\n"
)


ENGINES = {"scienceworld": "java", "miniwob": "chrom"}
"""How the programs begin that are killed, by environment."""

ENVIRONMENTS = ("alfworld", "webshop", "textworldexpress", "m3tooleval", "searchqa", "math")


class UnexpectedError(Exception):
    """A load did not end as it should."""


def run(*words: str, allowed: tuple[int, ...] = (0,)) -> str:
    """A command in this process: all that it printed. Raises `UnexpectedError` for another exit status."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = main(list(words))
    text = output.getvalue()
    if status not in allowed or "Traceback" in text:
        raise UnexpectedError(f"{' '.join(words[:4])}: status {status}: {text.strip()[-300:]}")
    return text


def episodes(folder: Path, dice: random.Random) -> str:
    """A few episodes of some environment, raw or in the interface that ships, and the page of them."""
    return episodes_in(dice.choice(ENVIRONMENTS), folder, dice)


def episodes_in(name: str, folder: Path, dice: random.Random) -> str:
    """The same in one environment."""
    ships = name in ("alfworld", "webshop", "textworldexpress")
    wrapped = ["--interface", "probe", *dice.choice([[], ["--compare"]])] if ships and dice.random() < 0.6 else []
    agent = "expert" if name == "math" else dice.choice(["random", "novice"])
    seed = str(dice.randrange(1000))
    words = ["--env", name, "--agent", agent, "--tasks", "2", "--seed", seed, "--workers", dice.choice("12")]
    run("evaluate", *words, *wrapped, "--out", f"{folder}/run")
    run("view", f"{folder}/run", "--out", f"{folder}/page.html")
    return f"{name}{', wrapped' * bool(wrapped)}"


def hostile_interface(folder: Path, dice: random.Random) -> str:
    """Episodes in an interface that attacks, hangs or breaks: the episodes are played to their end all the same."""
    name = dice.choice(list(HOSTILE))
    file = folder / "hostile.py"
    file.write_text(_INTERFACE.format(HOSTILE[name]))
    agent = ["--agent", "expert", "--tasks", "1"]
    run("evaluate", "--env", "alfworld", *agent, "--interface", str(file), "--out", f"{folder}/run", allowed=(0, 1))
    summary = VariantComparison.model_validate_json((folder / "run" / "summary.json").read_bytes())
    if next(iter(summary.variants.values())).success_rate.value != 100:
        raise UnexpectedError(f"the expert did not win under {name}")
    return name


def broken_endpoint(folder: Path, dice: random.Random) -> str:
    """Episodes with a model at an endpoint that has one fault, or is well."""
    fault = FAULTS[dice.choice(list(FAULTS))]
    with serving(fault.answering) as server:
        os.environ |= {URL_VARIABLE: server.url, TIMEOUT_VARIABLE: "1" if fault.attempts == TWICE else "60"}
        words = ["--env", "alfworld", "--agent", "vanilla", "--model", "m", "--tasks", "4", "--workers", "4"]
        try:
            run("evaluate", *words, "--out", f"{folder}/run", allowed=(0, 2))
        finally:
            del os.environ[URL_VARIABLE], os.environ[TIMEOUT_VARIABLE]
    return fault.name


def broken_engine(folder: Path, dice: random.Random) -> str:
    """An engine in a process of its own is killed in mid-episode: a typed fault, and the next reset works."""
    return engine_killed(dice.choice(list(ENGINES)), dice)


def engine_killed(name: str, dice: random.Random) -> str:
    """The same in one environment."""
    program = ENGINES[name]
    env = align_echo.make(name, split="test")
    try:
        task = align_echo.tasks(name, split="test")[dice.randrange(20)]
        env.reset(options={"task": task})
        started = {pid: said for pid, said in below(os.getpid()).items() if re.match(program, said)}
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            env.step("look around" if name == "scienceworld" else "click(80, 100)")
        except EngineError:
            env.reset(options={"task": task})
            return f"{name} killed"
        raise UnexpectedError(f"{name} went on without its engine ({sorted(started.values())})")
    finally:
        env.close()


def learned_interface(folder: Path, dice: random.Random) -> str:
    """An interface is learned, and shown."""
    seed = str(dice.randrange(1000))
    words = ["--env", "archive_task:ARCHIVE", "--agent", "clerk:Clerk", "--backend", "probe", "--iterations", "1"]
    run("generate-interface", *words, "--tasks-per-iteration", "2", "--seed", seed, "--out", f"{folder}/run")
    run("interface", "show", f"{folder}/run/interface.py", "--env", "archive_task:ARCHIVE")
    return "archive"


def pocket_model(folder: Path, dice: random.Random) -> str:
    """The local model plays, several episodes in one batch."""
    words = ["--env", "alfworld", "--model", "pocket", "--tasks", "2", "--seed", str(dice.randrange(1000))]
    run("evaluate", *words, "--out", f"{folder}/run")
    return "pocket"


def damaged_folder(folder: Path, dice: random.Random) -> str:
    """A finished run with a damaged file is shown, packed and resumed: that works, or it is one line."""
    run("evaluate", "--env", "alfworld", "--agent", "random", "--tasks", "2", "--out", f"{folder}/run")
    file = dice.choice(sorted(path for path in (folder / "run").rglob("*") if path.is_file()))
    data = bytearray(file.read_bytes())
    for _ in range(dice.randrange(1, 4)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    file.write_bytes(bytes(data[: dice.randrange(len(data))] if dice.random() < 0.5 else data))
    words = ["--env", "alfworld", "--agent", "random", "--tasks", "2", "--out", f"{folder}/run", "--resume"]
    for command in (["show", f"{folder}/run"], ["view", f"{folder}/run", "--out", f"{folder}/page.html"]):
        run(*command, allowed=(0, 2))
    run("evaluate", *words, allowed=(0, 2))
    return file.name


def warm_up(folder: Path, dice: random.Random) -> str:
    """Everything that is loaded once and kept: every environment, every engine, all that they pool."""
    for number in range(3):
        for name in ENVIRONMENTS:
            episodes_in(name, folder / f"{name}-{number}", dice)
    return ", ".join(engine_killed(name, dice) for name in ENGINES)


LOADS: dict[str, tuple[Load, int]] = {
    "episodes": (episodes, 6),
    "hostile interface": (hostile_interface, 6),
    "broken endpoint": (broken_endpoint, 6),
    "damaged folder": (damaged_folder, 4),
    "broken engine": (broken_engine, 1),
    "learned interface": (learned_interface, 1),
    "pocket model": (pocket_model, 2),
}
"""Each with how often it comes, of all."""
