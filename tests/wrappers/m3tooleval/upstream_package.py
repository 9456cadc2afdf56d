"""A small package in the layout of upstream's tasks, written anew: two families, a tool with a state, a task list."""

from __future__ import annotations

from pathlib import Path

BASE = """
from collections import namedtuple
from .repl import PythonREPL

ToolType = namedtuple("ToolType", ["name", "description", "function", "fn_signature"])
task_iterators = []


class Task:
    def __init__(self, name, tools, instruction, expected_output, is_single_tool_task=True):
        print("made", name)
        self.name, self.instruction, self.expected_output = name, instruction, expected_output
        self.tools = tools() if callable(tools) else tools


def register_task_iterator(tasks, length):
    task_iterators.append((tasks, length))
"""

DECODER = """
from ..base import Task, ToolType, register_task_iterator


def double(value):
    return value * 2


def calculator(expression):
    return eval(expression)


def tool(function, signature):
    return ToolType(name=function.__name__, description="A tool.", function=function, fn_signature=signature)


TOOLS = {f.__name__: tool(f, f.__name__ + "(x)") for f in (double, calculator)}
TASKS = [
    Task(name=f"message_decoder/double_{n}", tools=TOOLS, instruction=f"Double {n}.", expected_output=2 * n + 0.125,
         is_single_tool_task=False)
    for n in range(8)
]
register_task_iterator(TASKS, len(TASKS))
"""

BROWSER = """
from ..base import Task, ToolType, register_task_iterator


class Counter:
    def __init__(self):
        self.count = 0

    def click(self, *values):
        self.count += 1
        if values and not isinstance(values[0], list):
            raise ValueError("clicked, and broke")
        return f"clicked {self.count} times"


def create_tools():
    counter = Counter()
    return {"click": ToolType("click", "Clicks.", counter.click, "click()")}


TASKS = [Task(f"web_browsing/click_{n}", create_tools, f"Click {n} times.", str(n), False) for n in range(7)]
register_task_iterator(TASKS, len(TASKS))
"""


def write_package(root: Path, *, init: str = "from .impl import decoder, browser\n") -> Path:
    """Write the package below a checkout's root, which is given back."""
    folder = root / "scripts" / "eval" / "m3tooleval" / "tasks"
    (folder / "impl").mkdir(parents=True)
    (folder / "__init__.py").write_text(f"from .base import Task\n{init}")
    (folder / "base.py").write_text(BASE)
    (folder / "repl.py").write_text("import a_module_that_nobody_has\n")
    (folder / "impl" / "decoder.py").write_text(DECODER)
    (folder / "impl" / "browser.py").write_text(BROWSER)
    return root
