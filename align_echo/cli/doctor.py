"""`align-echo doctor`: what is installed, which data and keys are found, and what to do about what is missing.

It looks and never fails: what is missing is a line of advice, and the exit status is 0. Keys are never printed.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

from rich.text import Text

from align_echo import __version__
from align_echo.cli.agents import choose_player
from align_echo.cli.console import stdout
from align_echo.cli.generate_interface import can_write
from align_echo.cli.options import MODEL_VARIABLE
from align_echo.errors import AlignEchoError
from align_echo.interface import shipped_interfaces
from align_echo.models.names import POCKET, POCKET_ENVIRONMENTS, what_pocket_lacks
from align_echo.wrappers.catalogue import EnvironmentSpec, environments, tasks
from align_echo.wrappers.data_source import games_of
from align_echo.wrappers.miniwob.chromium import find_chromium, find_fonts
from align_echo.wrappers.scienceworld.jvm import find_java, java_version

PACKAGES = {
    "gymnasium": "gymnasium",
    "pydantic-monty": "pydantic_monty",
    "openai": "openai",
    "alfworld": "alfworld",
    "textworld": "textworld",
    "fast-downward-textworld": "fast_downward",
}
"""Distribution name -> module: what the base install brings."""

KEYS = ("ALIGN_ECHO_API_KEY", "OPENAI_API_KEY")
SETTINGS = (
    *(MODEL_VARIABLE, "OPENAI_BASE_URL", "ALFWORLD_DATA", "WEBSHOP_DATA", "ALIGN_ECHO_CACHE"),
    *("MINIWOB_CHROME_BINARY", "MINIWOB_CHROMEDRIVER"),
)


@dataclass(frozen=True)
class Finding:
    """One line of the report. `advice` says what to do; empty where nothing needs doing."""

    subject: str
    found: str
    good: bool = True
    advice: str = ""


def doctor() -> None:
    """Say what is installed, which data and keys are found, and what to install for what is missing."""
    settings = [_setting(name) for name in SETTINGS]  # before the engine is loaded: it sets some of its own
    console = stdout()
    for finding in (*_installed(), *_science(), *_browser(), *_local_models(), *_keys(), *settings, *_data()):
        mark = Text("ok", style="green") if finding.good else Text("--", style="yellow")
        line = Text.assemble(mark, f"  {finding.subject}: {finding.found}")
        console.print(line, soft_wrap=True)
        if finding.advice:
            console.print(f"      {finding.advice}", soft_wrap=True, markup=False)


def _installed() -> Iterator[Finding]:
    yield Finding("align-echo", f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    for package, module in PACKAGES.items():
        version = _version(package)
        if version and find_spec(module) is not None:
            yield Finding(package, version)
        else:
            yield Finding(package, "not installed", False, "pip install --force-reinstall align-echo")
    yield Finding("shipped interfaces", ", ".join(shipped_interfaces()) or "none")


def _science() -> Iterator[Finding]:
    """The extra of ScienceWorld, and the Java that it would run on."""
    install = environments()["scienceworld"].install
    if find_spec("scienceworld") is None:
        yield Finding("scienceworld", "not installed", False, f"only for ScienceWorld: {install}")
        return
    yield Finding("scienceworld", metadata.version("scienceworld"))
    try:
        java = find_java()
    except AlignEchoError as error:
        yield Finding("Java", "not found", False, str(error))
    else:
        yield Finding("Java", f"{java_version(java)}, {java}")


def _browser() -> Iterator[Finding]:
    """The extra of MiniWoB, and the browser that shows its pages."""
    for package in ("miniwob", "selenium"):
        yield _extra(package, "miniwob", "only for MiniWoB")
    try:
        (browser, _), _ = find_chromium(), find_fonts()
    except AlignEchoError as error:
        yield Finding("Chromium", "not found", False, str(error))
    else:
        yield Finding("Chromium", browser)


def _local_models() -> Iterator[Finding]:
    """What runs models in this process. Found without importing it, which takes seconds."""
    for package in ("torch", "transformers"):
        yield _extra(package, "train", "for local models and training")
    yield _extra("vllm", "vllm", "only for models on GPUs with vLLM in this process")
    lacks, plays = what_pocket_lacks(), choose_player(None, os.environ.get(MODEL_VARIABLE) or None)
    where = f" {' and '.join(sorted(POCKET_ENVIRONMENTS))}" if plays.model == POCKET else ""
    by_default = f"by default {plays.agent}{f' with the model {plays.model}' if plays.model else ''} plays{where}"
    yield Finding("pocket model", f"not usable: {lacks}; {by_default}" if lacks else f"ready; {by_default}", not lacks)


def _extra(package: str, extra: str, what_for: str) -> Finding:
    if find_spec(package) is None:
        return Finding(package, "not installed", False, f"{what_for}: pip install 'align-echo[{extra}]'")
    return Finding(package, _version(package))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _keys() -> Iterator[Finding]:
    present = [name for name in KEYS if os.environ.get(name)]
    if present:
        yield Finding("key for chat models", f"${present[0]} is set")
        return
    advice = "for hosted models: export OPENAI_API_KEY=...; a local endpoint needs none: --base-url http://..."
    yield Finding("key for chat models", "none; the probe backend and the scripted agents need none", False, advice)


def _setting(name: str) -> Finding:
    value = os.environ.get(name)
    if name == MODEL_VARIABLE:
        backend = "llm" if value and can_write(value) else "probe"
        value = f"{value or 'not set'}; generate-interface --backend auto takes {backend}"
    return Finding(f"${name}", value or "not set")


def _data() -> Iterator[Finding]:
    for spec in environments().values():
        yield _data_of(spec)


def _data_of(spec: EnvironmentSpec) -> Finding:
    try:
        counts = [f"{len(tasks(spec.name, split=split))} {split}" for split in spec.splits]
    except (AlignEchoError, ImportError) as error:
        return Finding(f"{spec.name} tasks", "not available", False, " ".join(str(error).split()))
    played = games_of(spec, None)
    return Finding(f"{spec.name} tasks", ", ".join(counts) + (f" ({played})" if played else ""))
