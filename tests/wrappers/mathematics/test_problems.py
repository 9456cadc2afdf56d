"""Problems: answers computed a second way, splits that share nothing, and files of a user's own rows."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

import align_echo
from align_echo.errors import MissingDataError, UsageError
from align_echo.rollout.session import base_env
from align_echo.wrappers.mathematics import generator, problems
from align_echo.wrappers.mathematics.generator import KINDS, LEVELS, NUMBERS
from align_echo.wrappers.mathematics.spec import task_type

EVERY = {task_id: problem for split in NUMBERS for task_id, problem in generator.problems(split).items()}


def those(kind: str, level: int) -> list[tuple[str, list[int], Fraction]]:
    """Text, the numbers in it, and the answer of every problem of a kind and level."""
    chosen = [problem for task_id, problem in EVERY.items() if task_id.startswith(f"{kind}/{level}/")]
    assert len(chosen) == 95
    return [(row.text, [int(n) for n in re.findall(r"\d+", row.text)], number(row.answer)) for row in chosen]


def number(latex: str) -> Fraction:
    return Fraction(re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"\1/\2", latex))


def evaluated(latex: str) -> Fraction:
    """A sum in LaTeX, worked out by Python's own parser."""
    while (plain := re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))", latex)) != latex:
        latex = plain
    for sign, python in ((r"\times", "*"), (r"\div", "/"), ("^", "**"), (r"\left", ""), (r"\right", "")):
        latex = latex.replace(sign, python)
    worked_out: Fraction = eval(re.sub(r"\d+", r"Fraction(\g<0>)", latex))
    return worked_out


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["arithmetic", "fractions"])
def test_sums_have_the_value_that_python_gives(kind, level):
    for text, _, answer in those(kind, level):
        (sum_text,) = re.findall(r"\$(.*)\$", text)
        assert evaluated(sum_text) == answer, text


def solves(equation: str, values: dict[str, Fraction]) -> bool:
    """Whether both sides are equal once numbers stand for the unknowns."""
    equation = re.sub(r"(?<=\d)(?=[a-z(])", "*", equation).replace("^", "**")
    equation = re.sub(r"[a-z]", lambda name: f"({values[name[0]]})", equation)
    left, right = (eval(re.sub(r"\d+", r"Fraction(\g<0>)", side)) for side in equation.split("="))
    return bool(left == right)


@pytest.mark.parametrize("level", LEVELS)
def test_the_answer_of_an_equation_solves_it(level):
    for text, _, answer in those("equations", level):
        (equation,) = re.findall(r"\$([^$]*=[^$]*)\$", text)
        (name,) = set(re.findall(r"[a-z]", equation))
        assert solves(equation, {name: answer}), text
        if level == 5:
            others = [n for n in range(-40, 41) if n != answer and solves(equation, {name: Fraction(n)})]
            assert len(others) == 1
            assert (others[0] < answer) == ("larger" in text)


@pytest.mark.long
@pytest.mark.parametrize("level", [1, 2, 3])
def test_two_equations_have_the_one_solution_that_is_asked_for(level):
    for text, _, answer in those("systems", level)[:30]:
        parts = re.findall(r"\$([^$]*)\$", text)
        equations, wanted = [part for part in parts if "=" in part], parts[-1]
        names = sorted({name for part in equations for name in re.findall("[a-z]", part)})
        size = range(-13, 14)
        solutions = [
            dict(zip(names, map(Fraction, pair), strict=True))
            for pair in itertools.product(size, repeat=2)
            if all(solves(part, dict(zip(names, map(Fraction, pair), strict=True))) for part in equations)
        ]
        assert len(solutions) == 1
        assert math.prod(solutions[0][name] for name in wanted) == answer


def test_divisors_and_multiples_are_those_that_a_search_finds():
    for text, (a, b, *_), answer in those("divisibility", 1):
        assert max(n for n in range(1, 2000) if a % n == b % n == 0) == answer, text
    for text, (a, b, *_), answer in those("divisibility", 2):
        assert next(n for n in itertools.count(a, a) if n % b == 0) == answer, text
    for text, (n,), answer in those("divisibility", 3):
        assert len({d for k in range(1, math.isqrt(n) + 1) if n % k == 0 for d in (k, n // k)}) == answer, text
    for text, (rest, _, a, b, c), answer in those("divisibility", 4):
        assert next(n for n in itertools.count(rest + a, a) if n % b == n % c == n % a == rest) == answer, text


def test_remainders_are_those_that_a_search_finds():
    for level in (1, 2, 3):
        for text, numbers, answer in those("modular", level):
            (sum_text,) = re.findall(r"\$(.*)\$", text)
            assert (evaluated(sum_text.replace("{", "(").replace("}", ")")) - answer) % numbers[-1] == 0
            assert 0 <= answer < numbers[-1]
    for text, numbers, answer in those("modular", 4):
        factor, m = numbers[0], numbers[-1]
        assert next(x for x in range(1, m + 1) if x * factor % m == 1) == answer, text


def test_counts_are_those_of_a_list_of_all_ways():
    for text, (k, n, *_), answer in those("combinatorics", 2):
        k, n = sorted((k, n))
        if n < 20:
            assert len(list(itertools.combinations(range(n), k))) == answer, text
    for text, numbers, answer in those("combinatorics", 5):
        size, *_ = sorted(numbers)
        if size == min(numbers) and max(numbers) < 13 and text.startswith("A team"):
            size, adults, children, *_ = numbers
            teams = itertools.combinations(range(adults + children), size)
            assert sum(any(member >= adults for member in team) for team in teams) == answer, text


def test_chances_are_those_of_a_count_of_all_cases():
    for text, numbers, answer in those("probability", 2):
        *faces, total = [n for n in numbers if n != 1] if "numbered" in text else numbers[1:2] + numbers[3:]
        throws = list(itertools.product(*(range(1, n + 1) for n in faces)))
        if len(faces) == 2:
            assert Fraction(sum(sum(throw) == total for throw in throws), len(throws)) == answer, text
    for text, (a, b, *_), answer in those("probability", 3):
        a, b = (a, b) if text.startswith(("Two", "A bag")) else (b, a)
        pairs = list(itertools.combinations(["first"] * a + ["second"] * b, 2))
        assert Fraction(pairs.count(("first", "first")), len(pairs)) == answer, text


def test_areas_and_inner_points_are_those_of_a_count():
    for text, _, answer in those("geometry", 5)[:25]:
        (ax, ay), (bx, by), (cx, cy) = [(int(x), int(y)) for x, y in re.findall(r"\((-?\d+), (-?\d+)\)", text)]
        inside = 0
        for x, y in itertools.product(range(-9, 10), repeat=2):
            sides = [
                (bx - ax) * (y - ay) - (by - ay) * (x - ax),
                (cx - bx) * (y - by) - (cy - by) * (x - bx),
                (ax - cx) * (y - cy) - (ay - cy) * (x - cx),
            ]
            inside += all(side > 0 for side in sides) or all(side < 0 for side in sides)
        assert inside == answer, text


# ---------------------------------------------------------------- splits


def test_no_two_problems_have_one_text_and_no_two_of_a_kind_the_same_numbers_and_answer():
    assert len(EVERY) == len(KINDS) * len(LEVELS) * 95
    assert len({problem.text for problem in EVERY.values()}) == len(EVERY)
    contents = {(row.kind, row.answer, *sorted(re.findall(r"\d+", row.text))) for row in EVERY.values()}
    assert len(contents) == len(EVERY)


def test_no_answer_is_worth_guessing():
    for kind in KINDS:
        answers = [problem.answer for problem in generator.problems("test").values() if problem.kind == kind]
        assert max(map(answers.count, answers)) <= len(answers) / 5, kind


# ---------------------------------------------------------------- a user's files

ROWS: list[dict[str, object]] = [
    {"problem": "What is $1+1$?", "answer": "2", "subject": "Prealgebra", "level": 1, "unique_id": "test/a/1.json"},
    {"problem": "Name a number \u2265 3.", "answer": "\\text{three}", "type": "Number Theory", "level": "Level 5"},
    {"problem": "Three times two?", "answer": 6},
]


def written(file: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_file_of_rows_is_the_test_split_and_plays(tmp_path):
    pytest.importorskip("math_verify")
    file = written(tmp_path / "rows.jsonl", ROWS)
    ids = align_echo.tasks("math", split="test", data_root=file)
    assert ids == ["test/prealgebra/1/test/a/1.json", "test/number-theory/5/line-2", "test/problem/any/line-3"]
    env = align_echo.make("math", split="test", data_root=file)
    scores = []
    for task, answer in zip(ids, ("2", "three", "7"), strict=True):
        observation, info = env.reset(options={"task": task})
        assert observation in env.observation_space
        assert info["task_type"] == task.split("/")[1]
        scores.append(env.step(rf"\boxed{{{answer}}}")[1])
    assert scores == [1.0, 1.0, 0.0]
    with pytest.raises(MissingDataError, match=r"no train problems: name a folder that holds train\.jsonl"):
        align_echo.tasks("math", split="train", data_root=file)


def test_a_sum_counts_in_a_users_rows_as_math_verify_has_it(tmp_path):
    pytest.importorskip("math_verify")
    env = align_echo.make("math", split="test", data_root=written(tmp_path / "rows.jsonl", ROWS))
    env.reset(options={"task": "test/prealgebra/1/test/a/1.json"})
    assert env.step(r"\boxed{1+1}")[1] == 1.0


def test_a_folder_keeps_what_two_splits_share_for_the_later_one(tmp_path):
    again: dict[str, object] = {"problem": "What  is\n$1+1$?", "answer": "2"}
    new: dict[str, object] = {"problem": "New", "answer": 1}
    written(tmp_path / "train.jsonl", [*ROWS, again, new])
    written(tmp_path / "test.jsonl", ROWS[:1])
    assert align_echo.tasks("math", split="test", data_root=tmp_path) == ["test/prealgebra/1/test/a/1.json"]
    left = ["train/number-theory/5/line-2", "train/problem/any/line-3", "train/problem/any/line-5"]
    assert align_echo.tasks("math", split="train", data_root=tmp_path) == left
    assert "2 left out that a later split has too" in problems.label(tmp_path)


def test_an_id_is_one_problem_and_splits_share_none(tmp_path):
    """Whatever rows are called: by their lines, or by numbers that begin anew in each file."""
    for split in NUMBERS:
        rows = [{"problem": f"{split} {n}", "answer": n} for n in range(3)]
        written(tmp_path / f"{split}.jsonl", [*rows, {"problem": f"{split} named", "answer": 3, "unique_id": "1"}])
    ids = [task for split in NUMBERS for task in align_echo.tasks("math", split=split, data_root=tmp_path)]
    assert len(ids) == len(set(ids)) == 12
    assert {task_type(task) for task in ids} == {"problem"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"problem": "x", "answer": "2"', "Expecting"),
        ('["x"]', "no names and values"),
        ('{"problem": "x"}', "no 'answer'"),
        ('{"problem": " ", "answer": "2"}', "no 'problem'"),
        ('{"problem": "x", "answer": true}', "no 'answer'"),
        ('{"problem": "x", "answer": "2", "unique_id": "???"}', "no part of a task id"),
        ('{"problem": "x", "answer": "\\\\frac{1}{0}"}', "has no value"),
        ('{"problem": "x", "answer": "think #### "}', "has no value"),
        ('{"problem": "\\ud800", "answer": "2"}', "half a character"),
        ('{"problem": "x", "answer": NaN}', "no 'answer'"),
        ("[" * 100_000, "nested too deeply"),
        ('{"problem": "\udcff"}', "utf-8"),
    ],
)
def test_a_damaged_row_costs_no_other_and_is_named(tmp_path, line, reason):
    file = written(tmp_path / "rows.jsonl", ROWS)
    bad = line.encode(errors="surrogateescape") + b"\n"
    file.write_bytes(file.read_bytes() + b"\n" + bad + bad)
    assert len(align_echo.tasks("math", split="test", data_root=file)) == len(ROWS)
    label = problems.label(file)
    assert re.search(rf"2 damaged rows left out \(.*rows.jsonl line 5 is damaged: .*{reason}", label)
    assert "\n" not in label
    file.write_bytes(bad)
    with pytest.raises(UsageError, match=rf"rows.jsonl line 1 is damaged: .*{reason}") as refusal:
        align_echo.tasks("math", split="test", data_root=file)
    assert "\n" not in str(refusal.value)


def test_two_rows_of_one_name_are_two_problems(tmp_path):
    rows = [{"problem": f"What is {n}?", "answer": n, "unique_id": 7} for n in range(2)]
    ids = align_echo.tasks("math", split="test", data_root=written(tmp_path / "rows.jsonl", rows))
    assert ids == ["test/problem/any/7", "test/problem/any/7-line-2"]


@pytest.mark.parametrize(
    "row",
    [
        {"problem": "1+1?", "answer": "2"},
        {"question": "1+1?", "answer": "One and one.\n#### 2"},
        {"problem": "1+1?", "solution": r"As \boxed{1}+\boxed{1}, it is \boxed{2}."},
        {"problem": "1+1?", "answer": ["2"]},
    ],
)
@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lambda text: b"\xef\xbb\xbf" + text, lambda text: b"[" + text + b"]"]
)
def test_rows_are_read_as_data_sets_come(tmp_path, row, pack):
    file = tmp_path / "rows.jsonl"
    file.write_bytes(pack(json.dumps(row).encode()))
    env = align_echo.make("math", split="test", data_root=file)
    assert env.reset(options={"task": "test/problem/any/line-1"})[0] == "1+1?"
    assert base_env(env).oracle().expert_action() == r"\boxed{2}"


def test_folders_and_files_without_problems_are_refused_in_one_line(tmp_path):
    with pytest.raises(MissingDataError, match=r"holds one of train\.jsonl, dev\.jsonl, test\.jsonl"):
        align_echo.tasks("math", split="test", data_root=tmp_path)
    with pytest.raises(UsageError, match="holds no problems"):
        align_echo.tasks("math", split="test", data_root=written(tmp_path / "rows.jsonl", []))
