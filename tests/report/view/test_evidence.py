"""Which rules on record may stand behind a message, and where the record of an interface is found."""

from __future__ import annotations

import json

from align_echo.interface.contract import Provenance, RuleRecord, load_interface
from align_echo.report.view.listing import provenances, rules_behind
from align_echo.types import Evidence

RULES = [
    RuleRecord(text=text, evidence=Evidence(support=support))
    for support, text in enumerate(
        (
            "`open X` is allowed when `look` shows X now",
            "Before `open X` you need to `go to X`, when `look` shows nothing",
            "Before `open X` you need to `go to P` (P is what `look` named)",
            "Write `move X to Y` instead of `put X in/on Y`",
            "Before `move X to Y` you need to `go to Y`",
            "Before `open X` you need to `go to X` or `push X`",
        )
    )
]


def test_a_message_stands_for_rules_that_name_its_commands_the_best_proven_first():
    assert rules_behind("`open _` does not work yet: you need to `go to _` first.", RULES) == [2, 1]
    assert rules_behind("then write `move _ to _`: `put _ in/on _` is not understood.", RULES) == [3]
    assert rules_behind("write `move _ to _` instead.", RULES) == [3]


def test_a_message_that_no_rule_speaks_of_stands_for_none():
    assert rules_behind("`_` was last seen after `go to _`.", RULES) == []
    assert rules_behind("think of something else", RULES) == []
    assert rules_behind("write `slice _` instead.", RULES) == []


def test_a_shipped_interface_has_its_rules_where_its_source_is_the_one_that_was_played():
    shipped = load_interface("alfworld/probe")
    off, other = f"{shipped.label}-rules-2-silenced", "alfworld/probe@0123456789abcdef"
    known = provenances(["none", shipped.label, off, other], [])
    assert known == {shipped.label: shipped.provenance, off: shipped.provenance}


def test_an_interface_of_ones_own_has_those_that_lie_in_the_folder_of_a_run(tmp_path):
    folder = tmp_path / "iterations" / "2"
    folder.mkdir(parents=True)
    made = Provenance(environment="station", backend="probe", content_hash="0123456789abcdef", rules=tuple(RULES))
    (folder / "interface.json").write_text(json.dumps({"provenance": made.model_dump(mode="json")}))
    (tmp_path / "interface.json").write_text("{ damaged")
    label = "mine@0123456789abcdef-placebo"
    assert provenances([label], [tmp_path]) == {label: made}
    assert provenances([label], [tmp_path / "iterations"]) == {}
