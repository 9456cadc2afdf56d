"""Every environment of the catalogue in turn; one whose extra or program is not installed is skipped with what installs
it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from align_echo.errors import MissingDataError, MissingExtraError
from align_echo.wrappers.catalogue import environments
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv
from tests.conformance.subjects import raw

IN_OTHER_PROCESSES = {"miniwob", "scienceworld"}
"""Engines that take seconds to begin: a browser and a Java machine."""


def subjects() -> Iterator[Any]:
    """Yield every environment; those with an engine of its own process are tried in the long tests."""
    for spec in environments().values():
        marks = [pytest.mark.long] if spec.name in IN_OTHER_PROCESSES else []
        yield pytest.param(spec, id=spec.name, marks=marks)


@pytest.fixture(scope="module", params=subjects())
def spec(request: pytest.FixtureRequest) -> EnvironmentSpec:
    """An environment of the catalogue, installed."""
    spec: EnvironmentSpec = request.param
    made = raw(spec)
    try:
        made.reset(seed=0)
    except (MissingExtraError, MissingDataError) as error:
        pytest.skip(str(error))
    finally:
        made.close()
    return spec


@pytest.fixture(scope="module")
def env(spec: EnvironmentSpec) -> Iterator[TextEnv]:
    """The environment, raw, with its own step limit."""
    made = raw(spec)
    yield made
    made.close()
