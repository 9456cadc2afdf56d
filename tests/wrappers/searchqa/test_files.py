"""Questions and documents of one's own, in a folder."""

from __future__ import annotations

import gzip
import json

import pytest

import align_echo
from align_echo.cli.main import main
from align_echo.errors import MissingDataError, UsageError
from align_echo.rollout.session import base_env
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.searchqa.corpus import open_corpus
from tests.conformance.subjects import play, start

GOOD = '{"question": "Who?", "golden_answers": ["I"]}\n'


def goals(folder, split: str) -> dict[str, str]:
    tasks = align_echo.tasks("searchqa", split=split, data_root=folder)
    env = align_echo.make("searchqa", split=split, data_root=folder)
    return {task: env.reset(options={"task": task})[1]["goal"] for task in tasks}


def lines(*questions: str) -> str:
    return "\n".join(json.dumps({"question": question, "golden_answers": ["x"]}) for question in questions)


def test_a_question_is_asked_in_the_last_split_alone_that_holds_it(folder):
    (folder / "train.jsonl").write_text(lines("Who painted  the gate", "Where is Ronda?", "Who is Ann?", "誰?", "何?"))
    (folder / "dev.jsonl").write_text(lines("Who is Ann?", "who is ann", "Where does The Gate hang?", "何?"))
    assert goals(folder, "train") == {"train/question/00001": "Where is Ronda?", "train/question/00003": "??"}
    assert list(goals(folder, "dev")) == ["dev/question/00000", "dev/question/00001", "dev/question/00003"]
    assert list(goals(folder, "test").values()) == ["Who painted The Gate?", "Where does The Gate hang?"]
    label = f"questions at {folder}, 4 left out that a later split has too"
    assert environment("searchqa").games(folder) == label


def test_a_split_of_which_nothing_is_left_is_named(folder):
    (folder / "train.jsonl").write_text(lines("Who painted The Gate?"))
    with pytest.raises(UsageError, match=r"train\.jsonl holds no question that a later split does not hold too"):
        align_echo.tasks("searchqa", split="train", data_root=folder)
    assert len(align_echo.tasks("searchqa", split="test", data_root=folder)) == 2


def test_a_folder_is_searched_and_goals(folder, monkeypatch):
    monkeypatch.setenv("SEARCHQA_DATA", str(folder))
    assert align_echo.tasks("searchqa", split="test") == ["test/question/00000", "test/question/00001"]
    env = align_echo.make("searchqa", split="test")
    assert start(env, "test/question/00000")[0] == "Question: Who painted The Gate?"
    searched, answered = play(env, ["<search>jose malaga</search>", "<answer>Jose Ortega</answer>"])
    assert 'Doc 1(Title: Jose Ortega) Jose Ortega painted "The Gate" in Malaga.' in searched.observation
    assert answered.score == 1.0
    assert environment("searchqa").games(None) == f"questions at {folder}"


def test_questions_of_ones_own_have_no_expert(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    env = base_env(align_echo.make("searchqa", split="test", data_root=folder))
    start(env, "test/question/00001")
    assert (env.oracle().expert_action(), env.oracle().distance()) == (None, None)
    assert main(["evaluate", "--env", "searchqa", "--data-root", str(folder), "--agent", "expert", "--tasks", "2"]) == 2
    assert "2 of 2 tasks of searchqa's split test have no expert" in capsys.readouterr().err


def test_all_environments_of_a_process_share_the_documents_until_the_file_changes(folder):
    file = folder / "corpus.jsonl"
    first = open_corpus(file)
    assert open_corpus(file) is first
    assert open_corpus(None) is open_corpus(None)
    file.write_text(json.dumps({"contents": "New\nA new document."}))
    assert [document.title for document in open_corpus(file).documents] == ["New"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("test.jsonl", "{", "line 1 is damaged: .*column 2"),
        ("test.jsonl", "[" * 50_000, "line 1 is damaged: it is nested too deeply"),
        ("test.jsonl", "[]", "holds no question"),
        ("test.jsonl", '\n{"question": "Who?"}', "line 2 is damaged: it is no question"),
        ("test.jsonl", '{"question": "Who?", "golden_answers": []}', "line 1 is damaged: it is no question"),
        ("test.jsonl", '{"question": "Who?", "golden_answers": [true]}', "line 1 is damaged: it is no question"),
        ("test.jsonl", '{"question": "Who?", "golden_answers": ["", " "]}', "line 1 is damaged: it is no question"),
        ("test.jsonl", "", "holds no question"),
        ("test.jsonl", b"\xff\xfe", "holds no question"),
        ("corpus.jsonl", '{"id": "7"}', "line 1 is damaged: it is no document"),
        ("corpus.jsonl", '{"contents": " "}', "line 1 is damaged: it is no document"),
        ("corpus.jsonl", "", "holds no document"),
        ("corpus.jsonl", '{"contents": "東京"}', "no word that can be searched"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(folder, name, content, message):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=message) as refusal:
        align_echo.make("searchqa", split="test", data_root=folder).reset(seed=0)
    assert name in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("bad", [b"{", b"\xff", b"[" * 50_000, b'{"question": "Who?"}', b'["x"]', b'{"question": 1}'])
def test_one_bad_row_costs_no_other_and_is_said(folder, bad):
    (folder / "test.jsonl").write_bytes(GOOD.encode() + bad + b"\n\n" + GOOD.replace("Who", "Why").encode())
    assert goals(folder, "test") == {"test/question/00000": "Who?", "test/question/00002": "Why?"}
    assert "1 damaged rows left out" in environment("searchqa").games(folder)
    assert "test.jsonl line 2 is damaged" in environment("searchqa").games(folder)


def test_a_document_that_cannot_be_read_is_warned_of(folder):
    (folder / "corpus.jsonl").write_text('{"title": "Ronda", "text": null}\n{"text": "Jose Ortega was a painter"}\n')
    with pytest.warns(UserWarning, match=r"1 damaged rows left out .*corpus\.jsonl line 1 is damaged"):
        documents = open_corpus(folder / "corpus.jsonl").documents
    assert [document.title for document in documents] == ["untitled"]


@pytest.mark.parametrize(
    "row",
    [{"golden_answers": "I"}, {"answers": ["I"]}, {"answer": "I"}, {"golden_answers": None, "answers": ["I", ""]}],
)
@pytest.mark.parametrize(
    "written", [gzip.compress, lambda text: b"\xef\xbb\xbf" + text, lambda text: b"[" + text + b"]"]
)
def test_rows_are_read_as_data_sets_come(folder, row, written):
    (folder / "test.jsonl").write_bytes(written(json.dumps({"question": "Who?", **row}).encode()))
    assert answered(folder, "I") == 1.0


@pytest.mark.parametrize(
    ("gold", "right", "wrong"), [("A", "a", "An"), ("The The", "the  the", "The"), ("?", "?", "!"), ("A", "A", "")]
)
def test_an_answer_of_which_nothing_is_left_is_compared_as_it_is_written(folder, gold, right, wrong):
    (folder / "test.jsonl").write_text(json.dumps({"question": "Who?", "golden_answers": [gold]}))
    assert (answered(folder, right), answered(folder, wrong)) == (1.0, 0.0)


def answered(folder, answer: str) -> float:
    """The score of an answer to the first question."""
    env = align_echo.make("searchqa", split="test", data_root=folder)
    env.reset(options={"task": "test/question/00000"})
    return float(env.step(f"<answer>{answer}</answer>")[1])


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(MissingDataError, match=r"no folder .*nowhere"):
        align_echo.tasks("searchqa", data_root=tmp_path / "nowhere")
    with pytest.raises(MissingDataError, match=r"no train\.jsonl"):
        align_echo.tasks("searchqa", split="train", data_root=folder)
    (folder / "corpus.jsonl").unlink()
    with pytest.raises(MissingDataError, match=r"no corpus\.jsonl.*SEARCHQA_URL"):
        align_echo.make("searchqa", split="test", data_root=folder)
