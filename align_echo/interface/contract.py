"""An interface: the source of `InferRules` and `WrapStep`, its contract, and its provenance.

Loading only parses the source; nothing is executed here (see `sandbox/session.py`). The two functions of an interface
(ALIGN, section 3.2): InferRules: (initial observation, task) -> rules stated up front; WrapStep: (engine, state,
action) -> enriched observation.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import re
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from align_echo.base.files import read_bytes, read_text, write_atomically
from align_echo.base.plain_yaml import first_wrong, parse_json
from align_echo.errors import InterfaceError, did_you_mean, first_line
from align_echo.interface.hints import HintCount, silenced_by
from align_echo.interface.rules.model import load_rules
from align_echo.registry import quantity
from align_echo.types import Evidence, Frozen, PlayedInterface, Usage


class StepLayout(Frozen):
    """How interface code calls its environment: the call, the return value of `WrapStep`, and the expression of a
    view.

    `words` describe the same in English: arguments and results of `env.step`, and the return value of `WrapStep`.
    """

    call: str
    returned: str
    view: str
    words: str


STEP_LAYOUTS: dict[str, StepLayout] = {
    "batched": StepLayout(
        call="obs, reward, done, info = env.step([agent_action])",
        returned="obs[0], info['won'][0], done[0]",
        view="env.step([view])[0][0]",
        words="env.step takes a list with one action and answers with lists, and WrapStep returns what stands in them",
    ),
    "single": StepLayout(
        call="obs, reward, done, info = env.step(agent_action)",
        returned="obs, reward, done",
        view="env.step(view)[0]",
        words="env.step takes the action alone and answers with four values, info the last, and WrapStep returns the "
        "other three",
    ),
    "scored": StepLayout(
        call="obs, _, done, info = env.step(agent_action)",
        returned="obs, done, info['score']",
        view="env.step(view)[0]",
        words="env.step takes the action alone and answers with four values, and WrapStep returns the score that is in "
        "the last, info, after the observation and done",
    ),
    "triple": StepLayout(
        call="obs, reward, done = env.step(agent_action)",
        returned="obs, reward, done",
        view="env.step(view)[0]",
        words="env.step takes the action alone and answers with three values, without info, and WrapStep returns them",
    ),
}
"""The layouts of ALIGN's initial interfaces (appendix C.5): "batched" is ALFWorld's, "scored" ScienceWorld's (the score
is 0 to 100), "triple" WebShop's and M3ToolEval's; "single" is any other environment's."""


ARGUMENTS = ("env", "logger", "init_obs", "task", "agent_action", "task_name", "task_type_idx", "instruction")
"""Arguments that a contract may name; the sandbox passes them (`sandbox/session.py`)."""


MAX_SOURCE = 200_000
"""Maximum length of interface source in characters."""


class InterfaceContract(Frozen):
    """How interface code of one environment is called, and which engine calls it may make.

    Only `ARGUMENTS` can be passed: a contract with other names is refused with the source (`check_source`).
    `step_layout` is one of `STEP_LAYOUTS`. `read_only_actions` may be sent at any time as probes (`{}` stands for an
    object); any other call must be the agent's own action, at most once a turn.
    """

    environment: str
    infer_rules_args: tuple[str, ...]
    wrap_step_args: tuple[str, ...]
    step_layout: Literal["batched", "single", "scored", "triple"]
    read_only_actions: tuple[str, ...] = ()

    @property
    def layout(self) -> StepLayout:
        """Layout of the environment calls."""
        return STEP_LAYOUTS[self.step_layout]

    @property
    def signature(self) -> str:
        """Signatures of the two functions, as interface code must define them."""
        return f"InferRules({', '.join(self.infer_rules_args)}); WrapStep({', '.join(self.wrap_step_args)})"

    def is_read_only(self, action: str) -> bool:
        """Return True if an action is one of `read_only_actions`."""
        return _read_only(self.read_only_actions).fullmatch(action) is not None


@functools.cache
def _read_only(actions: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern for exactly these actions, with any object in place of `{}`."""
    return re.compile("|".join(re.escape(known).replace(r"\{\}", r"[^\n]+") for known in actions) or r"(?!)")


class RuleRecord(Frozen):
    """One rule of a generated interface with its experiments. `untested`: they do not confirm it."""

    text: str
    evidence: Evidence
    untested: bool = False


class RuleCoverage(Frozen):
    """Experiments behind an interface's rules: for and against them, the most tasks of a rule, and how many rules are
    not confirmed."""

    rules: int
    support: int
    refuted: int
    tasks: int
    unconfirmed: int

    @classmethod
    def of(cls, rules: Sequence[RuleRecord]) -> RuleCoverage:
        """Count the experiments behind rules."""
        return cls(
            rules=len(rules),
            support=sum(rule.evidence.support for rule in rules),
            refuted=sum(rule.evidence.refuted for rule in rules),
            tasks=max((rule.evidence.tasks for rule in rules), default=0),
            unconfirmed=sum(rule.untested for rule in rules),
        )

    @property
    def in_words(self) -> str:
        """The counts, for people."""
        tasks = f"at most {quantity(self.tasks, 'task')} a rule"
        trials = f"{quantity(self.support, 'experiment')} for, {self.refuted:,} against, {tasks}"
        return f"{trials}; {self.unconfirmed} of {quantity(self.rules, 'rule')} not confirmed"


class Provenance(Frozen):
    """Origin of an interface: enough to reproduce and judge it.

    `environment` is the name of the environment it was made for. `action_format` is that environment's action format,
    "" if unknown. `unresolved` are misalignments without a rule that stood its trials.
    """

    environment: str
    action_format: str = ""
    backend: str
    agent: str = ""
    models: dict[str, str] = Field(default_factory=dict)
    prompt_hashes: dict[str, str] = Field(default_factory=dict)
    seed: int = 0
    iterations: int = 0
    training_tasks: tuple[str, ...] = ()
    rules: tuple[RuleRecord, ...] = ()
    unresolved: tuple[str, ...] = ()
    engine_steps: int = 0
    usage: Usage = Usage()
    versions: dict[str, str] = Field(default_factory=dict)
    content_hash: str = ""


class Interface(Frozen):
    """Interface source with a contract. `use_rules` / `use_feedback` switch off its halves for ablations.

    `placebo`: it runs as usual, but its texts are replaced by neutral text (`wrappers/align_wrapper.py`), as a control.
    `record` counts its hints in earlier runs: rules below the bar (`hints.py`) are not shown. `retract`: hints are
    withheld if similar ones were followed and did not come true; without it all are shown.
    """

    name: str
    source: str
    contract: InterfaceContract
    provenance: Provenance
    use_rules: bool = True
    use_feedback: bool = True
    placebo: bool = False
    record: tuple[HintCount, ...] = ()
    retract: bool = True

    @property
    def content_hash(self) -> str:
        """Hash of the source: interfaces with equal hashes run the same code."""
        return hash_source(self.source)

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides its texts: source, contract, halves, placebo, withheld rules.

        Its name and its environment's name do not count.
        """
        content = self.contract.model_dump(mode="json", exclude={"environment"})
        content |= self.model_dump(mode="json", include={"source", "use_rules", "use_feedback", "placebo", "retract"})
        content["silenced"] = sorted(silenced_by(self.record)) if self.retract else []
        return _short_hash(json.dumps(content, sort_keys=True))

    @property
    def played(self) -> PlayedInterface:
        """Identification of the interface in a trajectory."""
        return PlayedInterface(source=self.content_hash, fingerprint=self.fingerprint, placebo=self.placebo)

    @property
    def label(self) -> str:
        """Readable label: name, hash, switched-off halves, number of silenced rules, "-all-hints", "-placebo".

        "-2-silenced" counts the rules silenced by its record; "-all-hints" means that no hint is withheld. Labels do
        not identify interfaces: `fingerprint` does.
        """
        off = "" if self.use_rules else "-rules"
        off += "" if self.use_feedback else "-feedback"
        silenced = len(silenced_by(self.record)) if self.retract else 0
        off += f"-{silenced}-silenced" if silenced else ""
        off += "" if self.retract else "-all-hints"
        off += "-placebo" if self.placebo else ""
        return f"{self.name}@{self.content_hash}{off}"


def hash_source(source: str) -> str:
    """Hash an interface's source: SHA-256, first 16 hex digits."""
    return _short_hash(source)


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class InterfaceMisfit(NamedTuple):
    """Why an interface does not fit an environment, in a few words. `in_code`: only other code can fix it."""

    reason: str
    in_code: bool


def misfit(interface: Interface, contract: InterfaceContract, action_format: str = "") -> InterfaceMisfit | None:
    """Return why an interface cannot be played with a contract and an action format; None if it can. Names do not
    count.

    The environment must call the two functions the same way and allow the same views, and its action format must be
    the interface's, if both are known.
    """
    own_contract, own_format = interface.contract, interface.provenance.action_format
    if differences := [*_code_differences(own_contract, contract)]:
        return InterfaceMisfit("; ".join(differences), True)
    looks = [look for look in own_contract.read_only_actions if look not in contract.read_only_actions]
    if looks:
        return InterfaceMisfit(f"it may look by `{looks[0]}`, which is no look there", False)
    if own_format and action_format and own_format.casefold().split() != action_format.casefold().split():
        return InterfaceMisfit(f"its actions are {own_format!r}, not {action_format!r}", False)
    return None


def _code_differences(own_contract: InterfaceContract, contract: InterfaceContract) -> Iterator[str]:
    """Yield the code changes needed to move from one contract to another, in words."""
    if own_contract.signature != contract.signature:
        heads = zip(own_contract.signature.split("; "), contract.signature.split("; "), strict=True)
        changes = " and ".join(f"{ours} to {theirs}" for ours, theirs in heads if ours != theirs)
        yield f"its functions are {own_contract.signature}, not {contract.signature}: change {changes}"
    if own_contract.layout != contract.layout:
        own, wanted = own_contract.layout, contract.layout
        ours, theirs = (f"`{layout.call}` and returns `{layout.returned}`" for layout in (own, wanted))
        yield (
            f"it calls {ours}, not {theirs}: as it is written, {own.words}; here {wanted.words}: "
            "change every env.step in its code, and what WrapStep returns"
        )


def bound(interface: Interface, contract: InterfaceContract, action_format: str = "") -> Interface:
    """Bind an interface to a contract, whatever the environment is called.

    Raises `InterfaceError`, one line that says what to do, if it does not fit.
    """
    difference = misfit(interface, contract, action_format)
    if difference is not None:
        env, name = contract.environment, interface.name
        bind = f"to play a copy all the same: align-echo interface bind {name} --env {env}; "
        raise InterfaceError(
            f"the interface {name}, made for {interface.provenance.environment}, does not fit {env}: "
            f"{difference.reason}; "
            f"{'' if difference.in_code else bind}to make one for it: align-echo generate-interface --env {env}"
        )
    return interface if interface.contract == contract else interface.model_copy(update={"contract": contract})


def identity_source(contract: InterfaceContract) -> str:
    """Return the source of the interface that changes nothing: ALIGN's starting point (Algorithm 1, line 1)."""
    layout = contract.layout
    body = f"    {layout.call}\n    return {layout.returned}\n"
    return (
        f"def InferRules({', '.join(contract.infer_rules_args)}):\n    return ''\n\n\n"
        f"def WrapStep({', '.join(contract.wrap_step_args)}):\n{body}"
    )


def identity(contract: InterfaceContract) -> Interface:
    """Build the `Interface` that changes nothing."""
    provenance = Provenance(environment=contract.environment, backend="identity")
    return Interface(
        name="identity", source=identity_source(contract), contract=contract, provenance=provenance
    )


PARSE_ATTEMPTS = 50
FOREIGN = "<foreign text>"
"""File name used to parse text written by a model or another person."""

_QUIET = ("ignore", None, Warning, re.compile(re.escape(FOREIGN)), 0)
_parsing = threading.Lock()


def parse_source(source: str) -> ast.Module:
    """Parse as `ast.parse` does, one thread at a time: Python 3.11 fails on concurrent parsing (cpython issue 106905).

    Other code's threads cannot be controlled: after a collision the source is parsed again, after a short pause for
    the interrupted thread. Python's warnings, such as an unknown escape, are neither shown nor raised: the user did
    not write the text.
    """
    for attempt in range(PARSE_ATTEMPTS):
        with _parsing, contextlib.suppress(SystemError):
            _keep_quiet()
            return ast.parse(source, FOREIGN)
        time.sleep(attempt / 1000)
    raise InterfaceError("interface code could not be parsed: other threads parse all the time (Python 3.11)")


def _keep_quiet() -> None:
    """Put the filter for foreign text first, unless it is first already. It stays, for all threads.

    `warnings.catch_warnings` would undo concurrent changes of other threads.
    """
    if not warnings.filters or tuple(warnings.filters[0]) != _QUIET:
        warnings.filterwarnings("ignore", module=re.escape(FOREIGN))


def check_source(source: str, contract: InterfaceContract) -> None:
    """Refuse source that is too long, does not parse or lacks the two functions with the contract's arguments.

    Raises `InterfaceError`: one line, with the line number for a syntax error; also for a contract with unknown
    argument names.
    """
    if len(source) > MAX_SOURCE:
        raise InterfaceError(f"interface code is longer than {MAX_SOURCE} characters: shorten it")
    for name in (*contract.infer_rules_args, *contract.wrap_step_args):
        if name not in ARGUMENTS:
            raise InterfaceError(f"a contract cannot have the argument {name!r}; known: {', '.join(ARGUMENTS)}")
    try:
        tree = parse_source(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        problem = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InterfaceError(f"interface code does not parse: {where}{problem}") from error
    wanted = {"InferRules": contract.infer_rules_args, "WrapStep": contract.wrap_step_args}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name, arguments in wanted.items():
        if name not in functions:
            raise InterfaceError(f"interface code has no function {name}({', '.join(arguments)}) at its top level")
        parameters = functions[name].args
        names = tuple(arg.arg for arg in (*parameters.posonlyargs, *parameters.args))
        optional = len(parameters.defaults)
        required = names[: len(names) - optional] if optional else names
        if parameters.vararg or parameters.kwonlyargs or len(required) > len(arguments) or len(names) < len(arguments):
            raise InterfaceError(
                f"interface code has the wrong signature: {name}({', '.join(names)}), "
                f"needed is {name}({', '.join(arguments)})"
            )
    _check_rules(tree)


def _check_rules(tree: ast.Module) -> None:
    """Refuse rules as data that `env.explain` could not play. Rules that are not written out are left to the sandbox.
    """
    names: set[str] = set()
    stored: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="explain"), args=[ast.Name(id=name), *_]):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                stored[name] += 1
    names = {name for name in names if stored[name] == 1}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names:
            try:
                data = ast.literal_eval(node.value)
            except (ValueError, TypeError, MemoryError, RecursionError):
                continue
            load_rules(data)


def load_interface(
    name_or_path: str | Path, contract: InterfaceContract | None = None, action_format: str = ""
) -> Interface:
    """Read an interface: a shipped one by name ("alfworld/probe") or any `.py` file.

    A `.json` of the same stem beside it holds contract and provenance; without it, `contract` is required. With both,
    the interface must fit the contract and the action format (`bound`), whatever the environment is called. If the
    source differs from the recorded one, the provenance is marked ("..., edited since"), and its rules' evidence and
    its hint record are dropped.

    Raises `InterfaceError`.
    """
    file, name = _locate(name_or_path)
    try:
        content = read_bytes(file) if isinstance(file, Path) else file.read_bytes()
        source = content.decode()  # not `read_text`: line ends belong to the content and its hash
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise InterfaceError(f"cannot read the interface {name_or_path}: {reason}") from error
    sidecar = _sidecar(file)
    record: dict[str, Any] = {}
    hints: tuple[HintCount, ...] = ()
    if sidecar is not None:
        try:
            record = parse_json(read_text(sidecar))
            stored = InterfaceContract.model_validate(record["contract"])
            provenance = Provenance.model_validate(record["provenance"])
            hints = _HINTS.validate_python(record.get("hints", []))
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = first_wrong(error) if isinstance(error, ValidationError) else first_line(error)
            raise InterfaceError(f"the interface's record {sidecar} is not readable: {reason}") from error
    else:
        if contract is None:
            raise InterfaceError(
                f"{name_or_path} has no .json beside it that names its environment: put back the one that was written "
                "with it, or, in Python, give load_interface the environment's contract"
            )
        stored, provenance = contract, Provenance(environment=contract.environment, backend="unknown")
    interface = Interface(name=str(name_or_path), source=source, contract=stored, provenance=provenance)
    interface = bound(interface, contract or stored, action_format).model_copy(update={"name": name})
    try:
        check_source(source, interface.contract)
    except InterfaceError as error:
        raise InterfaceError(f"{name_or_path}: {error}") from error
    if provenance.content_hash in ("", interface.content_hash):
        return interface.model_copy(update={"record": hints})
    marked = provenance.model_copy(update={"backend": f"{provenance.backend}, edited since", "rules": ()})
    return interface.model_copy(update={"provenance": marked})


def has_record(name_or_path: str | Path) -> bool:
    """Return True if a `.json` with contract and provenance lies beside an interface.

    Raises `InterfaceError` if there is no such interface.
    """
    return _sidecar(_locate(name_or_path)[0]) is not None


def save_interface(interface: Interface, folder: Path, stem: str) -> Path:
    """Write `<stem>.py` and `<stem>.json` (contract, provenance, hash, and hint record if known), each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    provenance = interface.provenance.model_copy(update={"content_hash": interface.content_hash})
    record: dict[str, Any] = {
        "contract": interface.contract.model_dump(mode="json"),
        "provenance": provenance.model_dump(mode="json"),
    }
    if interface.record:
        record["hints"] = [count.model_dump(mode="json") for count in interface.record]
    write_atomically(folder / f"{stem}.json", json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return write_atomically(folder / f"{stem}.py", interface.source)


_HINTS = TypeAdapter(tuple[HintCount, ...])


def _locate(name_or_path: str | Path) -> tuple[Traversable, str]:
    path = Path(name_or_path)
    if path.suffix == ".py":
        if not path.is_file():
            raise InterfaceError(f"there is no interface file {path}")
        return path, path.stem
    shipped = resources.files("align_echo.interfaces")
    file = shipped.joinpath(f"{name_or_path}.py")
    if not file.is_file():
        known = shipped_interfaces()
        environment, _, name = str(name_or_path).partition("/")
        hint = did_you_mean(name, [each.partition("/")[2] for each in known if each.startswith(f"{environment}/")])
        shipped_names = ", ".join(known) or "none"
        raise InterfaceError(
            f"there is no interface named {name_or_path}; {hint}shipped: {shipped_names}; or give a .py file"
        )
    return file, str(name_or_path)


def _sidecar(file: Traversable) -> Path | None:
    path = Path(str(file)).with_suffix(".json")
    return path if path.is_file() else None


def shipped_interfaces() -> list[str]:
    """List the names of the interfaces in the package, `<environment>/<name>`."""
    root = resources.files("align_echo.interfaces")
    return sorted(
        f"{folder.name}/{file.name.removesuffix('.py')}"
        for folder in root.iterdir()
        if folder.is_dir() and not folder.name.startswith(("_", "."))
        for file in folder.iterdir()
        if file.name.endswith(".py") and not file.name.startswith("_")
    )
