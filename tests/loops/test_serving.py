"""`align-echo serve` says what is missing before anything is served."""

from __future__ import annotations

import sys

import pytest

from align_echo.cli.main import main


@pytest.mark.parametrize("loop", ["openenv", "mcp"])
def test_a_loop_that_is_not_installed_is_named_with_how_to_install_it(loop, capsys, monkeypatch):
    for name in [module for module in sys.modules if module.partition(".")[0] == loop]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, loop, None)
    monkeypatch.delitem(sys.modules, f"align_echo.loops.{loop}", raising=False)
    assert main(["serve", loop, "--env", "alfworld"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"needs an extra: pip install '.[{loop}]' in a checkout of align-echo" in err


def test_a_loop_that_there_is_not_is_refused(capsys):
    assert main(["serve", "trl", "--env", "alfworld"]) == 2
    assert "openenv" in capsys.readouterr().err
