"""Every environment of the catalogue in turn; one whose extra or program is not installed is skipped with what installs
it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from align_echo.errors import MissingDataError, MissingExtraError
from align_echo.wrappers.catalogue import environments
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.text_env import TextEnv
from tests.conformance.subjects import raw


@pytest.fixture(scope="module", params=environments().values(), ids=lambda spec: spec.name)
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
