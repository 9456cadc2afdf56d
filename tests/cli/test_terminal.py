"""No name and no text steers a terminal, whatever prints it: errors, notes, tables, progress, tracebacks."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

from align_echo.cli.console import stdout
from align_echo.cli.output import redacted_output
from align_echo.rollout.display import Display, note
from align_echo.types import Fault
from tests.report.view.episodes import episode, write

STEERING = {
    "a title": "\x1b]0;pwned\x07",
    "colour and moves": "\x1b[31m\x1b[2J\x1b[1A",
    "the line again": "fine\rbad\x08\x08",
    "eight bits": "\x9b31m\x9d0;pwned\x9c",
    "direction": "\u202egnp.exe\u2066",
    "not UTF-8": "\udcff",
}
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[\d*[AKJ]|\r")
"""What rich writes to colour and to move its own lines."""


def steers(text: str) -> list[str]:
    """The signs of a text that are neither seen nor a line break."""
    return [sign for sign in text if not (sign.isprintable() or sign in "\n\t")]


@pytest.mark.parametrize("name", STEERING.values(), ids=STEERING)
@pytest.mark.parametrize(
    "command",
    [
        ("report", "{}"),
        ("view", "{}"),
        ("show", "{}"),
        ("evaluate", "--env", "alfworld", "--agent", "novice", "--tasks", "1", "--resume", "--out", "{}"),
        ("evaluate", "--env", "{}"),
        ("evaluate", "--env", "alfworld", "--agent", "{}"),
        ("evaluate", "--env", "alfworld", "--interface", "{}"),
        ("evaluate", "--env", "alfworld", "--{}"),
        ("interface", "show", "{}"),
        ("study", "{}.yaml"),
        ("{}",),
    ],
    ids=" ".join,
)
def test_an_error_names_no_sign_that_is_not_seen(run, command, name):
    status, out, err = run(*(part.format(f"a{name}b") for part in command))
    assert status == 2
    assert steers(out + err) == []


@pytest.mark.parametrize("name", STEERING.values(), ids=STEERING)
def test_what_is_printed_of_a_run_names_none(run, name):
    folder = Path(f"a{name}b")
    write(folder / "trajectories" / "none.jsonl", [episode()])
    for verb in ("view", "show"):
        status, out, err = run(verb, folder)
        assert (status, steers(out + err)) == (0, [])


class Terminal(io.StringIO):
    """A terminal, as far as programs ask."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Both streams of the command line, on one terminal with colours."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, terminal)
    return terminal


@pytest.mark.parametrize("name", STEERING.values(), ids=STEERING)
def test_on_a_terminal_tables_and_progress_have_their_own_colours_alone(monkeypatch, name):
    terminal = on_a_terminal(monkeypatch)
    with redacted_output():
        table = Table(name, title=f"title {name}", caption=name)
        table.add_row(f"[/cell] [bold]{name}")
        stdout().print(table)
        with Display(f"[/opening] {name}") as display:
            display.stage(f"[/stage] {name}", 2)
            display.status(f"[/status] {name}")
            display.episode(True)
            display.broke(f"task {name}", Fault(source="model", error="E", message=name))
            display.say(name)
        note(name)
        print(name)
    shown = terminal.getvalue()
    assert "\x1b[" in shown, "there are no colours, so nothing was tried"
    assert "[/cell] [bold]" in OURS.sub("", shown)
    assert "pwned\x07" not in shown
    assert "\x1b[2J" not in shown
    assert steers(OURS.sub("", shown)) == []


def test_an_episode_that_broke_is_counted_as_one_and_not_as_lost(capsys):
    with Display() as display:
        display.stage("playing", 2)
        display.episode(None)
        display.episode(False)
    assert capsys.readouterr().err.splitlines()[1:] == ["playing: 1/2, won 0, 1 broke", "playing: 2/2, won 0, 1 broke"]


def test_a_name_with_line_breaks_forges_no_line(run):
    folder = Path("a\nforged: everything is fine\u2028forged\x85forged")
    write(folder / "trajectories" / "none.jsonl", [episode()])
    for command in (["view", folder], ["show", folder], ["show", folder, "no such task"], ["report", folder]):
        _, out, err = run(*command)
        assert out + err
        assert not [line for line in (out + err).splitlines() if line.startswith("forged")]


def test_a_bar_of_others_is_drawn_in_its_place_on_a_terminal_alone(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    with redacted_output():
        sys.stderr.write("\rloading 10%\r\x1b[31m")
        sys.stderr.write("\rloading 20%\n")
        print("a name", "\rover it")
    assert terminal.getvalue() == "\rloading 10% [31m\rloading 20%\na name  over it\n"
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with redacted_output():
        sys.stderr.write("\rloading 10%")
    assert file.getvalue() == " loading 10%"


@pytest.mark.long
def test_a_traceback_steers_nothing():
    code = (
        "from align_echo.cli.output import redact_tracebacks; redact_tracebacks()\n"
        "raise ValueError('\\x1b]0;pwned\\x07 here')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ValueError: ]0;pwned here" in done.stderr
    assert steers(done.stderr) == []
