"""Fixtures: the embedded catalogue in a cache of this test run alone, and a tiny data set in the official layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from align_echo.wrappers.webshop.catalogue import ProductCatalogue, open_catalogue
from tests.wrappers.webshop.tiny_data import write_data


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALIGN_ECHO_CACHE", str(folder))
        patch.delenv("WEBSHOP_DATA", raising=False)
        yield folder


@pytest.fixture(scope="session")
def embedded() -> ProductCatalogue:
    return open_catalogue(None)


@pytest.fixture(scope="session")
def official_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("official"))


@pytest.fixture(scope="session")
def official(official_root: Path) -> ProductCatalogue:
    return open_catalogue(official_root)
