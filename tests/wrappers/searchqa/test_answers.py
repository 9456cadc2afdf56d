"""Answers as they are compared, and text as it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.wrappers.searchqa.answers import exact, f1, normalise, plain


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("The  Beatles!", "beatles"),
        ("an apple, a day", "apple day"),
        ("José", "Jose"),
        ("1,802", "1802"),
        ("L’Été", "l'ete"),
        ("upper kelmar.", "Upper Kelmar"),
    ],
)
def test_case_punctuation_articles_accents_and_spaces_do_not_count(answer, right):
    assert normalise(answer) == normalise(right)
    assert exact(answer, ["something else", right])


@pytest.mark.parametrize("answer", ["", " ", "the", "?!", "Kelmar", "Upper Kelmar town", "not Upper Kelmar"])
def test_what_is_not_the_whole_answer_is_wrong(answer):
    assert not exact(answer, ["Upper Kelmar"])
    assert not exact(answer, [""])


def test_f1_counts_shared_words_each_once_for_each_time():
    assert f1("Upper Kelmar", ["the upper Kelmar"]) == 1.0
    assert f1("Kelmar", ["Upper Kelmar"]) == pytest.approx(2 / 3)
    assert f1("Kelmar Kelmar", ["Upper Kelmar"]) == pytest.approx(0.5)
    assert f1("Lower", ["Upper Kelmar", "Lower Kelmar"]) == pytest.approx(2 / 3)
    assert f1("", ["Upper"]) == f1("x", []) == 0.0


@given(st.text(max_size=60), st.text(max_size=60))
def test_f1_lies_between_0_and_1_and_is_1_for_a_right_answer(answer, right):
    assert 0.0 <= f1(answer, [right]) <= 1.0
    if exact(answer, [right]):
        assert f1(answer, [right]) == 1.0


@pytest.mark.parametrize(
    "right", ["Søren Kierkegaard", "Łódź", "Đà Nẵng", "Æthelred", "Encyclopædia", "Straße", "Þórr", "東京 Tower"]
)
def test_who_repeats_what_was_read_is_right(right):
    assert exact(right, [right])
    assert exact(plain(right), [right])
    assert f1(plain(right), [right]) == 1.0


@given(st.text(max_size=60))
def test_whatever_was_read_may_be_repeated_if_a_letter_of_it_was_shown(right):
    if normalise(plain(right)):
        assert exact(plain(right), [right])


def test_a_name_of_which_no_letter_can_be_shown_is_not_guessed_by_question_marks():
    assert plain("東京") == "??"
    assert exact("東京", ["東京"])
    assert not exact("??", ["東京"])
    assert f1("??", ["東京"]) == 0.0


@given(st.text())
def test_what_is_shown_is_one_line_of_printable_ascii(text):
    assert all(" " <= letter <= "~" for letter in plain(text))
    assert plain(plain(text)) == plain(text)


def test_letters_keep_their_shape_where_they_have_one():
    assert plain("“Málaga” – naïve\n\tStraße 中") == '"Malaga" - naive Strasse ?'
    assert plain("Æthelred, Łódź, Søren, Đà Nẵng, cœur") == "Aethelred, Lodz, Soren, Da Nang, coeur"
