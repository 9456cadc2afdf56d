"""Interfaces as data: checked by parsing only, saved whole, loaded as they were."""

from __future__ import annotations

import ast
import contextlib
import gc
import json
import os
import stat
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.base.files import write_atomically
from align_echo.errors import InterfaceError
from align_echo.interface.contract import (
    MAX_SOURCE,
    Interface,
    InterfaceContract,
    Provenance,
    RuleRecord,
    check_source,
    identity,
    identity_source,
    load_interface,
    parse_source,
    save_interface,
    shipped_interfaces,
)
from align_echo.interface.hints import HintCount
from align_echo.types import Evidence
from align_echo.wrappers.alfworld.spec import CONTRACT as ALFWORLD
from tests.play import interface, source
from tests.room_env import CONTRACT, SINGLE_CONTRACT

OTHERS = ("env", "place", "agent_action", "logger")
UNKNOWN = r"(^|: )a contract cannot have the argument '(weather|place)'; known: env, logger, init_obs, task, "
SIGNATURE = "InferRules(init_obs, task); WrapStep(env, init_obs, task, agent_action, logger)"


# ---------------------------------------------------------------- contract


def test_a_contract_states_its_signatures():
    assert CONTRACT.signature == SIGNATURE


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("look", True),
        ("inventory", True),
        ("examine mug 1", True),
        ("examine", False),
        ("examine ", False),
        ("look ", False),
        ("LOOK", False),
        ("look\nopen fridge 1", False),
        ("examine mug 1\nopen fridge 1", False),
        ("open fridge 1", False),
        ("", False),
    ],
)
def test_read_only_actions_match_whole_and_exactly(action: str, expected: bool):
    assert ALFWORLD.is_read_only(action) is expected


def test_special_characters_in_a_template_stand_for_themselves():
    contract = CONTRACT.model_copy(update={"read_only_actions": ("look (.*)", "read {} [x]")})
    assert contract.is_read_only("look (.*)")
    assert contract.is_read_only("read a book [x]")
    assert not contract.is_read_only("look anywhere")


# ---------------------------------------------------------------- check


@pytest.mark.parametrize("contract", [CONTRACT, SINGLE_CONTRACT, ALFWORLD])
def test_the_identity_satisfies_its_own_contract(contract: InterfaceContract):
    check_source(identity_source(contract), contract)


@pytest.mark.parametrize(
    "signatures",
    [
        ("def InferRules(a, b):", "def WrapStep(a, b, c, d, e):"),
        ("def InferRules(init_obs: str, task: str) -> str:", "def WrapStep(env, o, t, a: str, logger) -> tuple:"),
        ("def InferRules(init_obs, task, extra=None):", "def WrapStep(env, init_obs, task, a, logger, n=1):"),
        ("def InferRules(init_obs, task='x'):", "def WrapStep(env, init_obs, task, a, logger, **more):"),
        ("def InferRules(init_obs, task, /):", "@staticmethod\ndef WrapStep(env, init_obs, task, a, logger):"),
    ],
)
def test_signatures_that_can_be_called_pass(signatures: tuple[str, str]):
    check_source("".join(f"{signature}\n    pass\n" for signature in signatures), CONTRACT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no function InferRules(init_obs, task)"),
        ("def InferRules(init_obs, task): pass", "no function WrapStep("),
        ("x = 1\ndef f(:\n", "line 2: "),
        ("if True:\n    def InferRules(init_obs, task): pass", "no function InferRules"),
        (source().replace("(init_obs, task)", "(init_obs)"), "needed is InferRules(init_obs, task)"),
        (source().replace("(init_obs, task)", "(a, b, c)"), "needed is InferRules(init_obs, task)"),
        (source().replace("(init_obs, task)", "(*anything)"), "needed is InferRules(init_obs, task)"),
        (source().replace("(init_obs, task)", "(a, b, *, c)"), "needed is InferRules(init_obs, task)"),
        (source().replace("def WrapStep", "async def WrapStep"), "no function WrapStep"),
        ("\x00", "does not parse"),
        ("(" * 500 + ")" * 500, "does not parse"),
    ],
)
def test_source_that_breaks_the_contract_is_refused_in_one_line(text: str, message: str):
    with pytest.raises(InterfaceError) as caught:
        check_source(text, CONTRACT)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80) | st.lists(st.sampled_from("def ():\n\tx= '\"\\#[{"), max_size=40).map("".join))
def test_any_text_is_checked_or_refused_in_one_line(text: str):
    assert "\n" not in refusal(text)


def refusal(text: str) -> str:
    """Why a source is refused, "" if it is not."""
    try:
        check_source(text, CONTRACT)
    except InterfaceError as error:
        return str(error)
    return ""


def test_nothing_is_executed_by_checking_or_loading(tmp_path: Path):
    mark = tmp_path / "mark"
    file = tmp_path / "spy.py"
    file.write_text(f"open({str(mark)!r}, 'w').write('ran')\n" + source())
    load_interface(file, CONTRACT)
    assert not mark.exists()


class _Switches:
    """Garbage whose end lets another thread run."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        Path(os.devnull).open().close()


@contextlib.contextmanager
def _threads_that_take_turns() -> Iterator[None]:
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)


@pytest.mark.long
def test_threads_can_parse_at_once():
    """Python 3.11 fails in most runs of this if `ast.parse` is used as it is."""
    text = Path(__file__).read_text(encoding="utf-8") * 2

    def parse(_: int) -> int:
        _Switches()
        return len(parse_source(text).body)

    with _threads_that_take_turns(), ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(parse, range(40)))) == 1


def test_a_parse_survives_other_code_that_parses_in_its_own_threads():
    """Each parse fails in one of eight cases on Python 3.11 if it is not tried again."""
    text = Path(__file__).read_text(encoding="utf-8")
    over = threading.Event()

    def foreign(depth: int) -> None:
        if depth:
            foreign(depth - 1)
        while not over.is_set():
            _Switches()
            with contextlib.suppress(SystemError):
                ast.parse(text)

    with _threads_that_take_turns(), ThreadPoolExecutor(2) as pool:
        pool.submit(foreign, 30)
        pool.submit(foreign, 20)
        try:
            for _ in range(60):
                _Switches()
                parse_source(text)
        finally:
            over.set()


# ---------------------------------------------------------------- label and hash


def test_the_label_names_the_content_and_what_is_off():
    plain = identity(CONTRACT)
    assert plain.label == f"identity@{plain.content_hash}"
    off = plain.model_copy(update={"use_rules": False, "use_feedback": False})
    assert off.label == f"{plain.label}-rules-feedback"
    assert interface(plain.source + "# more").content_hash != plain.content_hash


# ---------------------------------------------------------------- load and save


@settings(max_examples=60, deadline=None)
@given(
    comment=st.text(max_size=40).filter(lambda text: refusal(f"{source()}# {text}\n") == ""),
    seed=st.integers(0, 9),
    rule=st.text(max_size=20),
)
def test_what_was_saved_is_loaded_unchanged(tmp_path_factory, comment: str, seed: int, rule: str):
    folder = tmp_path_factory.mktemp("interfaces")
    provenance = Provenance(environment="room", backend="llm", seed=seed, models={"agent": rule}, agent="vanilla")
    text = f"{source()}# {comment}\n"
    saved = Interface(name="mine", source=text, contract=CONTRACT, provenance=provenance)
    loaded = load_interface(save_interface(saved, folder, "mine"))
    assert (loaded.name, loaded.source, loaded.contract) == (saved.name, saved.source, saved.contract)
    assert loaded.provenance == provenance.model_copy(update={"content_hash": saved.content_hash})
    assert loaded.content_hash == saved.content_hash


def test_source_that_was_edited_after_its_record_is_marked_and_keeps_no_evidence(tmp_path: Path):
    evidence = Evidence(support=3, refuted=0, tasks=3)
    provenance = Provenance(environment="room", backend="probe", rules=(RuleRecord(text="a", evidence=evidence),))
    path = save_interface(interface(source()).model_copy(update={"provenance": provenance}), tmp_path, "mine")
    assert load_interface(path).provenance.rules
    path.write_text(path.read_text() + "# mine\n")
    loaded = load_interface(path)
    assert (loaded.provenance.backend, loaded.provenance.rules) == ("probe, edited since", ())
    assert load_interface(save_interface(loaded, tmp_path, "again")).provenance.backend == "probe, edited since"


def test_line_ends_of_other_systems_are_kept(tmp_path: Path):
    saved = interface(source().replace("\n", "\r\n"))
    assert load_interface(save_interface(saved, tmp_path, "mine")).content_hash == saved.content_hash


def test_a_file_without_a_record_needs_a_contract(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(source())
    with pytest.raises(InterfaceError, match="put back the one that was written with it"):
        load_interface(file)
    loaded = load_interface(file, CONTRACT)
    assert (loaded.name, loaded.provenance.backend, loaded.provenance.environment) == ("mine", "unknown", "room")


def test_an_interface_is_bound_by_what_it_needs_and_not_by_a_name(tmp_path: Path):
    file = save_interface(identity(CONTRACT), tmp_path, "mine")
    renamed = CONTRACT.model_copy(update={"environment": "mine.rooms:Room"})
    assert load_interface(file, renamed).contract == renamed
    assert load_interface(file, ALFWORLD).contract == ALFWORLD, "it has the same calls and more looks"
    namesake = InterfaceContract(**{**CONTRACT.model_dump(), "step_layout": "single"})
    with pytest.raises(InterfaceError, match=r"made for room, does not fit room: it calls .*generate-interface --env"):
        load_interface(file, namesake)


@pytest.mark.parametrize(
    ("other", "reason", "mendable"),
    [
        ({"wrap_step_args": ("env", "agent_action")}, "its functions are", False),
        ({"step_layout": "triple"}, "it calls", False),
        ({"read_only_actions": ("look",)}, "it may look by `inventory`", True),
        ({}, "its actions are 'verbs', not 'JSON'", True),
    ],
)
def test_what_does_not_fit_says_so_and_how_to_go_on(tmp_path: Path, other: dict[str, Any], reason: str, mendable: bool):
    made = identity(CONTRACT)
    made = made.model_copy(update={"provenance": made.provenance.model_copy(update={"action_format": "verbs"})})
    file = save_interface(made, tmp_path, "mine")
    with pytest.raises(InterfaceError) as caught:
        load_interface(file, CONTRACT.model_copy(update={**other, "environment": "there"}), "JSON")
    line = str(caught.value)
    assert line.startswith(f"the interface {file}, made for room, does not fit there: {reason}")
    assert "\n" not in line
    assert line.endswith("to make one for it: align-echo generate-interface --env there")
    assert (f"align-echo interface bind {file} --env there" in line) == mendable
    assert load_interface(file, CONTRACT.model_copy(update={"environment": "there"}), " VERBS ").name == "mine"


def test_what_decides_what_is_shown_tells_interfaces_apart_and_names_do_not():
    made = identity(CONTRACT)
    renamed = made.model_copy(
        update={"name": "mine", "contract": CONTRACT.model_copy(update={"environment": "elsewhere"})}
    )
    assert renamed.fingerprint == made.fingerprint
    assert renamed.label != made.label
    records = [(HintCount(rule=rule, failed=9),) for rule in ("go `home`.", "go `out`.")]
    others = [made.model_copy(update={"record": record}) for record in records]
    assert others[0].label == others[1].label, "both have one silenced rule"
    changes: list[dict[str, Any]] = [{"placebo": True}, {"use_rules": False}, {"use_feedback": False}]
    changes += [{"retract": False}, {"source": made.source + "\n"}]
    changes += [{"contract": CONTRACT.model_copy(update={"read_only_actions": ()})}]
    all_of_them = [made, *others, *(made.model_copy(update=change) for change in changes)]
    assert len({each.fingerprint for each in all_of_them}) == len(all_of_them)


@pytest.mark.parametrize(
    "record", ["", "{", "[]", "{}", '{"contract": {}, "provenance": {}}', '{"contract": 1, "provenance": 2}']
)
def test_a_damaged_record_is_one_clear_line(tmp_path: Path, record: str):
    file = save_interface(identity(CONTRACT), tmp_path, "mine")
    file.with_suffix(".json").write_text(record)
    with pytest.raises(InterfaceError, match=r"record .*mine\.json is not readable") as caught:
        load_interface(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("arguments", [{"infer_rules_args": ("init_obs", "weather")}, {"wrap_step_args": OTHERS}])
def test_a_contract_with_unknown_arguments_is_refused_when_it_is_loaded(tmp_path: Path, arguments: dict[str, object]):
    contract = CONTRACT.model_copy(update=arguments)
    path = save_interface(interface(identity_source(contract), contract), tmp_path, "m3")
    with pytest.raises(InterfaceError, match=UNKNOWN):
        load_interface(path)
    with pytest.raises(InterfaceError, match=UNKNOWN):
        load_interface(path, contract)


def test_a_file_with_the_wrong_signature_is_refused(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(source().replace("(init_obs, task)", "(init_obs)"))
    with pytest.raises(InterfaceError, match="wrong signature"):
        load_interface(file, CONTRACT)


@pytest.mark.parametrize("name", ["nowhere.py", "/nowhere/at/all.py"])
def test_a_missing_file_is_named(name: str):
    with pytest.raises(InterfaceError, match=f"no interface file {name}"):
        load_interface(name, CONTRACT)


def test_a_missing_shipped_interface_lists_those_there_are():
    with pytest.raises(InterfaceError, match="no interface named alfworld/nothing; shipped: "):
        load_interface("alfworld/nothing", ALFWORLD)


def test_a_file_that_is_not_text_is_one_clear_line(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InterfaceError, match="cannot read the interface"):
        load_interface(file, CONTRACT)


def test_every_shipped_interface_loads():
    for name in shipped_interfaces():
        loaded = load_interface(name)
        assert loaded.provenance.environment == name.split("/")[0]
        assert loaded.provenance.content_hash in ("", loaded.content_hash)


def test_the_record_is_readable_json_with_the_hash(tmp_path: Path):
    saved = identity(CONTRACT)
    save_interface(saved, tmp_path / "new" / "folder", "mine")
    record = json.loads((tmp_path / "new" / "folder" / "mine.json").read_text())
    assert record["provenance"]["content_hash"] == saved.content_hash
    assert record["contract"]["environment"] == "room"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch):
    file = write_atomically(tmp_path / "a.txt", "old")

    def refuse(before: Path, now: Path) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="disk is full"):
        write_atomically(file, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert file.read_text() == "old"


def test_written_files_have_the_usual_permissions(tmp_path: Path):
    ordinary = tmp_path / "ordinary"
    ordinary.write_text("x")
    written = write_atomically(tmp_path / "written", "x")
    assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)


def test_code_that_no_sandbox_would_run_is_refused_when_it_is_loaded(tmp_path):
    long = tmp_path / "long.py"
    long.write_text(identity(ALFWORLD).source + "#" * MAX_SOURCE)
    with pytest.raises(InterfaceError, match="longer than 200000 characters"):
        load_interface(long, contract=ALFWORLD)
