"""`align-echo doctor`: what is installed, which data and keys are found, and what to do about what is missing.

It looks and never fails: what is missing is a line of advice, and the exit status is 0. Keys are never printed.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

from rich.text import Text

from align_echo import __version__
from align_echo.agents.catalogue import AGENTS
from align_echo.agents.players import MODEL_VARIABLE, choose_player
from align_echo.align.generation import can_write
from align_echo.cli.console import stdout
from align_echo.critic.language import FORMS
from align_echo.critic.selection import RULES
from align_echo.errors import AlignEchoError, install_line
from align_echo.interface import shipped_interfaces
from align_echo.models.endpoint import TIMEOUT_VARIABLE, URL_VARIABLE, resolve_base_url, resolve_key, resolve_timeout
from align_echo.models.names import POCKET, POCKET_ENVIRONMENTS, read_name, what_pocket_lacks
from align_echo.redaction import KEY_VARIABLES
from align_echo.registry import OURS
from align_echo.train.method import METHODS
from align_echo.wrappers.catalogue import ENVIRONMENTS, environments
from align_echo.wrappers.environment import EnvironmentSpec
from align_echo.wrappers.java import find_java, java_version
from align_echo.wrappers.miniwob.chromium import find_chromium, find_fonts
from align_echo.wrappers.searchqa.client import SERVER_VARIABLE, checked_url

PACKAGES = {
    "gymnasium": "gymnasium",
    "pydantic-monty": "pydantic_monty",
    "openai": "openai",
    "alfworld": "alfworld",
    "textworld": "textworld",
    "fast-downward-textworld": "fast_downward",
}
"""Distribution name -> module: what the base install brings."""

SETTINGS = (
    *(MODEL_VARIABLE, URL_VARIABLE, TIMEOUT_VARIABLE, "ALFWORLD_DATA", "WEBSHOP_DATA", "ALIGN_ECHO_CACHE"),
    *("MINIWOB_CHROME_BINARY", "MINIWOB_CHROMEDRIVER", "SEARCHQA_DATA", SERVER_VARIABLE),
)


def doctor() -> None:
    """Say what is installed, which data and keys are found, and what to install for what is missing."""
    settings = [_setting(name) for name in SETTINGS]  # before the engine is loaded: it sets some of its own
    console = stdout()
    extras = (*_java(), *_browser(), _extra("math-verify", "math", "only for math"))
    findings = (*_installed(), *extras, *_local_models(), *_keys(), *settings, *_data(), *_of_others())
    for finding in findings:
        console.print(finding, soft_wrap=True)


def _finding(subject: str, state: str, good: bool = True, advice: str = "") -> Text:
    """One line of the report, and below it what to do; `advice` is empty where nothing needs doing."""
    mark = Text("ok", style="green") if good else Text("--", style="yellow")
    return Text.assemble(mark, f"  {subject}: {state}", f"\n      {advice}" if advice else "")


def _installed() -> Iterator[Text]:
    yield _finding("align-echo", f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    for package, module in PACKAGES.items():
        version = _version(package)
        if version and find_spec(module) is not None:
            yield _finding(package, version)
        else:
            yield _finding(package, "not installed", False, "pip install . in a checkout of align-echo")
    yield _finding("shipped interfaces", ", ".join(shipped_interfaces()) or "none")


def _java() -> Iterator[Text]:
    """The extras whose engines are Java programs, and the Java that they would run on."""
    yield _extra("scienceworld", "scienceworld", "only for ScienceWorld")
    yield _extra("textworld-express", "textworldexpress", "only for TextWorldExpress")
    if not any(map(find_spec, ("scienceworld", "textworld_express"))):
        return
    try:
        java = find_java("an installed environment")
    except AlignEchoError as error:
        yield _finding("Java", "not found", False, str(error))
    else:
        yield _finding("Java", f"{java_version(java)}, {java}")


def _browser() -> Iterator[Text]:
    """The extra of MiniWoB, and the browser that shows its pages."""
    for package in ("miniwob", "selenium"):
        yield _extra(package, "miniwob", "only for MiniWoB")
    try:
        (browser, _), _ = find_chromium(), find_fonts()
    except AlignEchoError as error:
        yield _finding("Chromium", "not found", False, str(error))
    else:
        yield _finding("Chromium", browser)


def _local_models() -> Iterator[Text]:
    """What runs models in this process. Found without importing it, which takes seconds."""
    for package in ("torch", "transformers"):
        yield _extra(package, "train", "for local models and training")
    yield _extra("vllm", "vllm", "only for models on GPUs with vLLM in this process")
    lacks, plays = what_pocket_lacks(), choose_player(None, os.environ.get(MODEL_VARIABLE) or None)
    where = f" {' and '.join(sorted(POCKET_ENVIRONMENTS))}" if plays.model and plays.model.kind == POCKET else ""
    by_default = f"by default {plays.agent.name}{f' with the model {plays.model}' if plays.model else ''} plays{where}"
    yield _finding("pocket model", f"not usable: {lacks}; {by_default}" if lacks else f"ready; {by_default}", not lacks)


def _extra(package: str, extra: str, what_for: str) -> Text:
    if find_spec(package.replace("-", "_")) is None:
        return _finding(package, "not installed", False, f"{what_for}: {install_line(extra)}")
    return _finding(package, _version(package))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _keys() -> Iterator[Text]:
    present = [name for name in KEY_VARIABLES if os.environ.get(name, "").strip()]
    try:
        resolve_key(None)
    except AlignEchoError as error:
        yield _finding("key for chat models", f"${present[0]} cannot be used", False, str(error))
        return
    if present:
        yield _finding("key for chat models", f"${present[0]} is set")
        return
    advice = "for hosted models: export OPENAI_API_KEY=...; a local endpoint needs none: --base-url http://..."
    yield _finding("key for chat models", "none; the probe backend and the scripted agents need none", False, advice)


def _setting(name: str) -> Text:
    value = os.environ.get(name)
    if name == MODEL_VARIABLE:
        backend = "hybrid" if value and can_write(read_name(value)) else "probe"
        value = f"{value or 'not set'}; generate-interface --backend auto takes {backend}"
    try:
        if value and name == URL_VARIABLE:
            value = resolve_base_url(value)
        if value and name == SERVER_VARIABLE:
            value = checked_url(value)
        if value and name == TIMEOUT_VARIABLE:
            value = f"{resolve_timeout(None):g} s"
    except AlignEchoError as error:
        return _finding(f"${name}", "cannot be used", False, str(error))
    return _finding(f"${name}", value or "not set")


def _data() -> Iterator[Text]:
    for name in environments():
        yield _data_of(ENVIRONMENTS.get(name))


def _of_others() -> Iterator[Text]:
    """What installed packages of others bring, and whether it can be used."""
    for registry in (ENVIRONMENTS, AGENTS, METHODS, RULES, FORMS):
        for name, entry in registry.entries().items():
            if entry.origin.startswith(OURS):
                continue
            subject = f"{registry.kind} {name}"
            try:
                registry.get(name)
            except AlignEchoError as error:
                yield _finding(subject, f"of {entry.origin}, cannot be used", False, str(error))
            else:
                yield _finding(subject, f"of {entry.origin}")


def _data_of(spec: EnvironmentSpec) -> Text:
    """How many tasks each split has. One that is missing takes nothing from the others; why it is, is the advice."""
    counts, missing, reasons = [], [], []
    for split in spec.splits:
        try:
            counts.append(f"{len(spec.tasks(split))} {split}")
        except (AlignEchoError, ImportError) as error:
            missing.append(split)
            reasons.append(" ".join(str(error).split()))
    subject, advice = f"{spec.name} tasks", "; ".join(dict.fromkeys(reasons))
    if not counts:
        return _finding(subject, "not available", False, advice)
    try:
        played = spec.games(None)
    except AlignEchoError as error:
        return _finding(subject, "cannot be played", False, str(error))
    absent = f"; no {', no '.join(missing)}" if missing else ""
    return _finding(subject, ", ".join(counts) + (f" ({played})" if played else "") + absent, not missing, advice)
