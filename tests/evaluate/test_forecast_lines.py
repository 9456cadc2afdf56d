"""What the lines of an estimate say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from align_echo.evaluate.forecast import Forecast, RoleForecast
from align_echo.models.choosing import read_name


@pytest.mark.parametrize(("tokens", "dollars"), [(3100, "$0.0031"), (31_000, "$0.03"), (2_000_000, "$2.00")])
def test_an_estimate_below_a_cent_is_no_zero(tokens: int, dollars: str, tmp_path: Path, monkeypatch):
    (tmp_path / "prices.json").write_text(json.dumps({"m": {"prompt": 1.0, "completion": 1.0}}))
    monkeypatch.setenv("ALIGN_ECHO_PRICES", str(tmp_path / "prices.json"))
    forecast = Forecast(roles={("agent", read_name("m", "http://127.0.0.1:9/v1")): RoleForecast(1, tokens, 0)})
    assert forecast.lines[0].endswith(f" {dollars}")
