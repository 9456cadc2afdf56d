"""`python -m studies.pocket`: what it refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from align_echo.errors import UsageError
from studies.pocket.__main__ import make


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"layer": 3}', "layer: there is no such setting"),
        ('{"training": {"epochs": "many"}}', "training.epochs: "),
        ("not JSON", "Invalid JSON"),
    ],
)
def test_settings_that_are_wrong_are_named(tmp_path, text, said):
    file = tmp_path / "settings.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=f"settings.json: {said}"):
        make(tmp_path / "out", file, resume=False)
    assert not (tmp_path / "out").exists()


def test_settings_that_cannot_be_read_and_a_run_that_is_not_there_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"there is no file .*none\.json"):
        make(tmp_path / "out", tmp_path / "none.json", resume=False)
    with pytest.raises(UsageError, match="no checkpoint"):
        make(tmp_path / "out", None, resume=True)
