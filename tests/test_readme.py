"""The documentation's examples run, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from align_echo.interface import identity
from align_echo.wrappers.catalogue import environment

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def test_the_readmes_example_runs(tmp_path, capsys):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[0]
    interface = tmp_path / "mine.py"
    interface.write_text(identity(environment("alfworld").contract).source)
    code, changed = re.subn(r'interface="[^"]*"', f'interface="{interface}"', code)
    assert changed == 1
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert re.fullmatch(r"\d+ won; \d+\.\d+ % in invalid runs\n", capsys.readouterr().out)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
