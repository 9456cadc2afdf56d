"""Upstream's own tasks, from a folder of its checkout. Importing them runs their code: use only folders you trust.

The folder holds `tasks/base.py`, directly or in `scripts/eval/m3tooleval` or `eval/m3tooleval` below it. Only names,
instructions, expected answers and tools are taken from it. Turns, limits and checks are the library's own, and so is
`calculator`, because upstream's evaluates a model's text as Python. Upstream's interpreter of actions in Python is not
supported.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib.util
import io
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from align_echo.base.dice import Dice
from align_echo.errors import MissingDataError, first_line
from align_echo.wrappers.m3tooleval.site import Site
from align_echo.wrappers.m3tooleval.tools import CALCULATOR, Tool, ToolCall, Tools, toolbox

# ---------------------------------------------------------------- task of M3ToolEval, and invented names for tasks

_CONSONANTS = {"train": "bdfgkl", "test": "mnprst"}
"""Consonants of invented names. The splits share none, so no name is in both."""


@dataclass(frozen=True)
class ToolTask:
    """Task: the question, the right answer, and the tools for finding it.

    `make_tools` returns the tools in their initial state; with a `site`, they are those of a visit to it. `digits` is
    the number of digits after the point in a numeric answer. `plan` holds the calls of a solution, `facts` the (page,
    line) of the site to see beforehand. `has_plan` is False if no solution is known. `converts`: arguments that read as
    numbers are passed as numbers, as for upstream's tools.
    """

    instruction: str
    expected: object
    make_tools: Callable[[], Tools] = toolbox
    plan: tuple[ToolCall, ...] = ()
    digits: int | None = None
    site: Site | None = None
    facts: tuple[tuple[str, int], ...] = ()
    has_plan: bool = True
    converts: bool = False


def invent_word(dice: Dice, split: str, syllables: int = 3) -> str:
    """Invent a word in small letters; `train` and `test` use different consonants."""
    return "".join(dice.pick(_CONSONANTS[split]) + dice.pick("aeiou") for _ in range(syllables))


def draw_distinct(count: int, make: Callable[[], str]) -> list[str]:
    """Call `make` until `count` different texts have been collected."""
    texts: list[str] = []
    while len(texts) < count:
        if (text := make()) not in texts:
            texts.append(text)
    return texts


def join_words(items: list[str]) -> str:
    """Join words for a sentence: "a, b and c"."""
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]


# ---------------------------------------------------------------- upstream's own tasks, from a folder of its checkout

FOLDERS = ("", "scripts/eval/m3tooleval", "eval/m3tooleval")

_loading = threading.Lock()


def upstream_tasks(root: Path) -> Mapping[str, ToolTask]:
    """Load the tasks of a checkout by name, in upstream's order. Raises `MissingDataError` if they do not load."""
    for folder in FOLDERS:
        if (root / folder / "tasks" / "base.py").is_file():
            with _loading:
                return _loaded((root / folder / "tasks").resolve())
    raise MissingDataError(
        f"{root} holds no tasks of M3ToolEval: name the folder of its checkout in which tasks/base.py lies"
    )


@functools.cache
def _loaded(package: Path) -> Mapping[str, ToolTask]:
    name = f"m3tooleval_of_{hashlib.sha256(str(package).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(
        name, package / "__init__.py", submodule_search_locations=[str(package)]
    )
    if spec is None or spec.loader is None:
        raise MissingDataError(f"the package {package} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    interpreter = ModuleType(f"{name}.repl")
    interpreter.PythonREPL = None  # type: ignore[attr-defined]
    sys.modules |= {name: module, f"{name}.repl": interpreter}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            spec.loader.exec_module(module)
            registered = sys.modules[f"{name}.base"].task_iterators
            tasks = {str(task.name): _task(task) for iterator, _ in registered for task in iterator}
    except (Exception, SystemExit) as error:
        for loaded in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
            del sys.modules[loaded]
        raise MissingDataError(
            f"the tasks in {package} do not load: {type(error).__name__}: {first_line(error)}"
        ) from error
    if not tasks:
        raise MissingDataError(f"the package {package} registers no task")
    return tasks


def _task(task: Any) -> ToolTask:
    tools = task.tools() if callable(task.tools) else task.tools
    return ToolTask(str(task.instruction), task.expected_output, _fresh(tools), has_plan=False, converts=True)


def _fresh(tools: Mapping[str, Any]) -> Callable[[], Tools]:
    """Make a factory of tools that share no state between episodes."""

    def make() -> Tools:
        own = copy.deepcopy(dict(tools))
        return {name: _tool(name, tool) for name, tool in own.items()}

    return make


def _tool(name: str, tool: Any) -> Tool:
    about = " ".join(str(tool.description).split())
    return Tool(name, str(tool.fn_signature), about, CALCULATOR.call if name == CALCULATOR.name else tool.function)
