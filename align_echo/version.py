"""The release, and the versions beside it."""

import platform
from importlib import metadata

__version__ = "0.3.0"

VERSIONED = ("align-echo", "pydantic-monty", "gymnasium", "openai", "alfworld", "textworld")
"""Packages whose versions are recorded, if installed."""


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect a run."""
    by_package = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            by_package[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return by_package
