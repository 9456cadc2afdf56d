"""Files of episodes that a killed process or another program damaged, and what critics said in the files beside."""

from __future__ import annotations

import json

from align_echo.report.view.reading import CritiqueIndex, OracleLabels
from align_echo.rollout.episode_files import DamagedLine, describe_damage, find_episodes, read_episodes
from tests.report.view.episodes import HALF, episode, lost, write


def test_a_damaged_line_is_told_and_all_others_are_read(tmp_path):
    file = write(tmp_path / "a.jsonl", [episode("x/1"), episode("x/2"), episode("x/3")])
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1][:50], "", '{"task_id": 3}', lines[2], lines[0][:99]]))
    damaged: list[DamagedLine] = []
    assert [played.task_id for played in read_episodes(file, damaged)] == ["x/1", "x/3"]
    first, second, last = describe_damage(damaged)
    assert first.startswith(f"{file} line 2 is damaged and left out: Invalid JSON: EOF while parsing")
    assert second == f"{file} line 4 is damaged and left out: environment: it is missing"
    assert last == f"the last line of {file} is not whole and is left out"


def test_the_last_line_is_read_where_it_is_whole(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(episode("x/1").model_dump_json())
    damaged: list[DamagedLine] = []
    assert len(list(read_episodes(file, damaged))) == 1
    file.write_text('{"task_id": 3}')
    assert list(read_episodes(file, damaged)) == []
    assert describe_damage(damaged) == [f"{file} line 1 is damaged and left out: environment: it is missing"]


def test_many_damaged_lines_are_counted(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text("no\n" * 1000)
    damaged: list[DamagedLine] = []
    assert list(read_episodes(file, damaged)) == []
    assert len(describe_damage(damaged)) == 6
    assert describe_damage(damaged)[-1] == f"{file}: 995 more lines are damaged and left out"


def test_halves_of_characters_are_marked_and_the_rest_is_kept(tmp_path):
    file = tmp_path / "a.jsonl"
    stored = json.loads(episode(goal="whole \U0001f600").model_dump_json())
    stored["steps"][0]["observation"] = HALF
    bad_bytes = episode(goal="caf@").model_dump_json().encode().replace(b"@", b"\xe9")
    file.write_bytes(json.dumps(stored).encode() + b"\n" + bad_bytes + b"\n")
    damaged: list[DamagedLine] = []
    first, second = read_episodes(file, damaged)
    assert (first.goal, first.steps[0].observation) == ("whole \U0001f600", "half \ufffd a character")
    assert second.goal == "caf\ufffd"
    assert damaged == []


def test_labels_of_an_oracle_are_those_of_the_actions_of_each_turn(tmp_path):
    file = write(tmp_path / "run/trajectories/played.jsonl", [episode("x/1"), episode("x/2"), episode("x/3")])
    turns = [[{"action": "scan", "expert": "wrong"}, {"action": "stow gem 4 into pod 1", "nearer": "correct"}], [], []]
    of_others = [[{"action": "board", "expert": "wrong"}], [], []]
    records = [{"task_id": "x/1", "sample": 0, "turns": turns}, {"task_id": "x/2", "sample": 0, "turns": of_others}]
    (tmp_path / "run/labels.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    parts, damaged = find_episodes([tmp_path / "run"]), list[DamagedLine]()
    labels = OracleLabels(parts, damaged)
    first, second, third = (labels.for_episode(parts[0], played) for played in read_episodes(file, damaged))
    assert first == [{"scan": "expert: wrong", "stow gem 4 into pod 1": "nearer: correct"}, {}, {}]
    assert second == third == [{}, {}, {}]
    assert damaged == []


CRITIQUE = {"form": "echo", "reply": "r", "critique": {"reason": "too early", "suggestions": ["Look first."]}}


def test_critiques_of_rounds_and_of_training_are_found_by_their_attempt(tmp_path):
    write(tmp_path / "run/trajectories/round-0.jsonl", [lost("x/1"), lost("x/2")])
    write(tmp_path / "run/trajectories/round-1.jsonl", [episode("x/1", sample=1, critique="Look first.")])
    write(tmp_path / "run/rollouts/3.jsonl", [lost("x/1"), episode("x/1", sample=1, critique="Look first.")])
    write(tmp_path / "run/rollouts/4.jsonl", [lost("x/1")])
    of_round = {"attempt": {"task_id": "x/1", "sample": 0, "critique": ""}, "review": CRITIQUE}
    of_step = {"task_id": "x/1", "attempt": 0, "review": CRITIQUE}
    for name, record in (("reviews/round-1", of_round), ("critiques/3", of_step)):
        (tmp_path / f"run/{name}.jsonl").parent.mkdir()
        (tmp_path / f"run/{name}.jsonl").write_text(json.dumps(record) + "\n")
    parts = {part.part: part for part in find_episodes([tmp_path / "run"])}
    damaged: list[DamagedLine] = []
    said = CritiqueIndex([*parts.values()], damaged)

    def heard(part: str, task: str, sample: int = 0, critique: str = "") -> list[tuple[str, str]]:
        return [(each.part, each.review.advice) for each in said.for_episode(parts[part], task, sample, critique)]

    assert damaged == []
    assert heard("round-0", "x/1") == [("round-1", "Look first.")]
    assert heard("round-0", "x/2") == heard("round-1", "x/1", 1, "Look first.") == heard("rollouts/4", "x/2") == []
    assert ("rollouts/3", "Look first.") in heard("rollouts/3", "x/1")
    assert ("rollouts/3", "Look first.") not in heard("rollouts/4", "x/1")
