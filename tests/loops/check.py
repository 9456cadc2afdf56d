"""Runs every example of examples/loops as a stranger would: `make loops-check`, `make loops-check ONLY=NAME`.

The wheel is built once, from a copy of the sources. Each examples/loops/NAME.py gets an environment of its own in
.venv-loops/NAME, where the wheel is installed from a file with the extra that the example's first line names
(`# needs: align-echo[EXTRA]`), and is run there as a copy that lies alone in an empty folder: the checkout cannot be
imported. NAME begins with the name of its loop; tests/loops/test_LOOP.py and test_NAME.py run in the same environment,
on the checkout. One table is printed; the exit status is 1 if anything failed. Environments are kept, and brought up to
date by the next run.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
EXAMPLES, TESTS = ROOT / "examples" / "loops", ROOT / "tests" / "loops"
VENVS = ROOT / ".venv-loops"
SOURCES = ("align_echo", "wrappers", "interfaces", "prompts")
FILES = ("align_echo_command.py", "pyproject.toml", "README.md", "LICENSE")

TESTING = ("pytest>=8", "hypothesis>=6")

NEEDS = re.compile(r"# needs: align-echo(?:\[([\w,-]+)\])?\n")

SECONDS = 600
"""How long an example or its tests may take."""

HEAD = ("loop", "extra", "lines", "install s", "run s", "example", "tests")


class Checked(NamedTuple):
    """A row of the table. `tests` is "none" where the loop has no test file."""

    loop: str
    extra: str
    lines: int
    install_seconds: float
    run_seconds: float
    example: str
    tests: str

    @property
    def good(self) -> bool:
        return self.example == "ok" and self.tests in ("ok", "none")


def extra_of(source: str) -> str:
    """The extra that an example needs; "" for none. Raises `ValueError` for an example that does not say."""
    needs = NEEDS.match(source)
    if needs is None:
        raise ValueError("its first line says what it needs: `# needs: align-echo[EXTRA]`, or `# needs: align-echo`")
    return needs[1] or ""


def lines_of_code(source: str) -> int:
    """The lines that hold code: neither empty nor a comment nor a docstring."""
    texts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    texts = [node for node in texts if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)]
    docstrings = {line for node in texts for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {line for token in tokens if token.type not in blank for line in range(token.start[0], token.end[0] + 1)}
    return len(code - docstrings)


def build_wheel(folder: Path) -> Path:
    """The wheel of the checkout. Raises `SystemExit` if it does not build."""
    say("building the wheel")
    source = folder / "source"
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, source)
    built = run([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(source)], folder)
    wheels = list(folder.glob("*.whl"))
    if built.returncode or not wheels:
        raise SystemExit(f"the wheel does not build:\n{built.stdout[-3000:]}{built.stderr[-3000:]}")
    return wheels[0]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in a folder, with nothing of this process's Python."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    kinds: dict[str, Any] = {"capture_output": True, "text": True, "timeout": SECONDS, "check": False}
    try:
        return subprocess.run(command, cwd=folder, env=kept, **kinds)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"it took longer than {SECONDS} s\n")


def install(name: str, extra: str, wheel: Path) -> tuple[Path, str]:
    """The Python of the example's environment, and what went wrong; "" if all is there."""
    venv = VENVS / name
    python = venv / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = [] if python.exists() else [[sys.executable, "-m", "venv", str(venv)]]
    steps += [[*pip, wanted, *TESTING], [*pip, "--force-reinstall", "--no-deps", str(wheel)]]
    for step in steps:
        done = run(step, ROOT)
        if done.returncode:
            return python, done.stderr[-3000:]
    return python, ""


def check(example: Path, wheel: Path) -> Checked:
    """Install and run one example, and its tests."""
    name, source = example.stem, example.read_text(encoding="utf-8")
    extra, lines = extra_of(source), lines_of_code(source)
    say(f"{name}: installing {f'the extra {extra}' if extra else 'the wheel'}")
    start = time.monotonic()
    python, problem = install(name, extra, wheel)
    seconds = time.monotonic() - start
    if problem:
        say(problem)
        return Checked(name, extra, lines, seconds, 0.0, "not installed", "not run")
    say(f"{name}: running")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder, example.name)
        alone.write_text(source, encoding="utf-8")
        ended = judged(run([str(python), str(alone)], Path(folder)))
    ran = time.monotonic() - start
    tests = [str(file) for loop in (name, name.partition("_")[0]) if (file := TESTS / f"test_{loop}.py").exists()]
    tested = judged(run([str(python), "-m", "pytest", "-p", "no:cacheprovider", *tests], ROOT)) if tests else "none"
    return Checked(name, extra, lines, seconds, ran, ended, tested)


def judged(done: subprocess.CompletedProcess[str]) -> str:
    """What is said of a command that has ended; its output, if it failed."""
    if done.returncode == 0:
        return "ok"
    say(f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return f"exit {done.returncode}"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def table(rows: list[Checked]) -> str:
    """The rows as a table of Markdown, in columns."""
    cells = [[row.loop, row.extra or "none", str(row.lines), f"{row.install_seconds:.0f}"] for row in rows]
    ends = [[f"{row.run_seconds:.0f}", row.example, row.tests] for row in rows]
    lines = [list(HEAD), *([*first, *last] for first, last in zip(cells, ends, strict=True))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |" for line in lines
    )


def main() -> int:
    """Check what is asked for. 0 if all is well."""
    examples = {file.stem: file for file in sorted(EXAMPLES.glob("*.py"))}
    parser = argparse.ArgumentParser(description="Run the examples of examples/loops from the built wheel.")
    parser.add_argument("--only", choices=sorted(examples), help="one example")
    only = parser.parse_args().only
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        rows = [check(file, wheel) for name, file in examples.items() if only in (None, name)]
    print(table(rows))
    return 0 if rows and all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
