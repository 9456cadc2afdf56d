"""The study of what a tiny critic needs to learn to see: its lines, its last line, and options that cannot be."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("peft")
pytest.importorskip("PIL")

from benchmarks import vision_critic


@pytest.mark.long
def test_a_line_for_every_number_of_examples_and_json_as_the_last(monkeypatch, capsys):
    monkeypatch.setattr(vision_critic, "TESTED", 3)
    vision_critic.main(["--least", "4", "--examples", "9"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:-1] if "examples," in line] == ["4", "8"]
    last = json.loads(lines[-1])
    assert (last["baseline"], last["n"], list(last["by_examples"])) == (50.0, 6, ["4", "8"])
    assert last["value"] == last["by_examples"]["8"] == 50 * last["ratio"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--size", "84"), "--size is WIDTHxHEIGHT"),
        (("--size", "0x0"), "--size is WIDTHxHEIGHT"),
        (("--size", "83x41"), "room for two boxes"),
        (("--size", "-84x84"), "--size"),
        (("--colours", "purple,red"), "--colours takes two or more of red,"),
        (("--colours", "red"), "--colours takes two or more"),
        (("--colours", "red,red"), "each once"),
        (("--least", "0"), "--least is at least 2"),
        (("--examples", "200"), "--examples at least --least"),
        (("--examples", "many"), "--examples"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(arguments, said, capsys):
    with pytest.raises(SystemExit) as left:
        vision_critic.main(list(arguments))
    err = capsys.readouterr().err
    assert left.value.code == 2
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err
