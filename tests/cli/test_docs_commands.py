"""The commands of docs/critic.md and docs/training.md, word for word but for their size, in the order of the pages.

Slow: they collect, train and play. Left out: studies, which take hours; their commands are in fences.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("datasets")

DOCS = Path(__file__).parents[2] / "docs"
SMALLER = (
    (r"--tasks \d+", "--tasks 10"),
    (r"--best-of 8", "--best-of 2"),
    (r"--rounds \d+", "--rounds 2"),
    (r"--steps \d+", "--steps 2"),
)
MORE = {
    "critic collect": "--candidates 3",
    "critic flywheel": "--candidates 3 --tasks 10 --test-tasks 4",
    "critic train --reasoning": "--config reasoning.yaml --least 1",
    "critic train": "--least 1",
    "evaluate --env": "--tasks 2",
}
"""What makes a command smaller, by how it begins."""

REASONING = "{warm_examples: 200, warm_batch: 8, steps: 1, states: 2, samples: 2}\n"


def commands(page: str) -> list[str]:
    """The indented commands of a page, in order, without `align-echo`."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^    align-echo (.+)$", text, flags=re.MULTILINE)


def smaller(command: str) -> list[str]:
    """The same command on few tasks, with few candidates and steps."""
    for pattern, few in SMALLER:
        command = re.sub(pattern, few, command)
    more = next((extra for begin, extra in MORE.items() if command.startswith(begin)), "")
    return f"{command} {more}".split()


@pytest.fixture
def in_order(run, tmp_path, monkeypatch):
    """Runs commands one after the other in one folder; gives what all printed, and asserts that each went well."""
    monkeypatch.chdir(tmp_path)
    Path("reasoning.yaml").write_text(REASONING)

    def go(page: str) -> str:
        lines = []
        for command in commands(page):
            status, out, err = run(*smaller(command))
            assert status == 0, f"{command}\n{err[-2000:]}"
            lines.append(f"{out}\n{err}")
        return "\n".join(lines)

    return go


@pytest.mark.slow
def test_the_commands_of_the_critics_page(in_order):
    lines = in_order("critic.md")
    assert "a table of actions without numbers: " in lines
    assert "the agent's own logprob: " in lines
    assert "placebo" in lines
    assert "these are drawn" not in lines, "the page's own commands must draw alike"


@pytest.mark.slow
def test_the_commands_of_the_page_on_training(in_order):
    example = re.findall(r"```yaml\n(method: .*?)```", (DOCS / "training.md").read_text(), flags=re.DOTALL)[0]
    Path("mine.yaml").write_text(example)
    lines = in_order("training.md")
    assert "policy/reward" in lines
    assert "held-out tasks:" in lines, "the dry run says what evaluations cost"
