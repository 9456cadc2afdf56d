"""The generated pages of docs/reference are what the code says today."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["reference/cli.md", "reference/config.md"])
def test_a_generated_page_is_not_stale(generate: ModuleType, name: str):
    if name.endswith("config.md"):
        pytest.importorskip("peft")
        pytest.importorskip("PIL")
    page = re.sub(r" +$", "", generate.PAGES[name](), flags=re.MULTILINE)
    assert (DOCS / name).read_text(encoding="utf-8") == page, "write it anew: python docs/generate.py"


def test_every_generated_page_is_checked(generate: ModuleType):
    assert set(generate.PAGES) == {"reference/cli.md", "reference/config.md"}


def test_a_key_without_a_meaning_is_not_left_out(generate: ModuleType):
    class Bare(generate.BaseModel):  # type: ignore[name-defined, misc]
        key: int = 0

    with pytest.raises(KeyError, match="key"):
        generate.keys(Bare)
