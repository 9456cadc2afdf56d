"""What is meant by words that the engine never understands, read off how near each form is where they are said."""

from __future__ import annotations

from collections import Counter

from align_echo.align.probe.findings import UnmatchedUtterance, learn_forms

TAKE, PUT, OPEN = "take {0} from {1}", "place {0} into {1}", "open {0}"


def said(form: str, times: int = 6, first: bool = True, **nearness: float) -> list[UnmatchedUtterance]:
    """A form said in so many tasks, where each template was so near; `first`: nothing else was refused there before."""
    near = {TAKE: 0.0, PUT: 0.0} | {{"take": TAKE, "put": PUT}[word]: value for word, value in nearness.items()}
    return [UnmatchedUtterance(f"task {number}", form, form, near, first) for number in range(times)]


def meant(
    *groups: list[UnmatchedUtterance], worded: dict[str, int] | None = None, complete: bool = True
) -> dict[str, str]:
    utterances = [utterance for group in groups for utterance in group]
    read = learn_forms(utterances, Counter(worded or {}), complete=complete)
    return {form: reading[0] for form, reading in read.items()}


def test_the_nearest_form_is_meant_if_no_other_comes_near():
    assert meant(said("grab {0} at {1}", take=0.5)) == {"grab {0} at {1}": TAKE}


def test_what_the_agent_says_in_its_own_form_it_does_not_say_in_other_words_though_it_was_refused():
    assert meant(said("stow {0} {1}", take=0.5), worded={TAKE: 6}) == {}


def test_words_near_one_form_are_not_read_as_another():
    assert meant(said("place {0} onto {1}", take=0.5)) == {}


def test_what_it_says_in_words_near_a_form_it_does_not_say_in_a_third_way():
    near, third = said("take {0} off {1}", take=0.5), said("stow {0} {1}", take=0.5)
    assert meant(near, third) == {"take {0} off {1}": TAKE}


def test_where_not_all_forms_are_known_strange_words_may_be_one():
    assert meant(said("grab {0} at {1}", take=0.5), complete=False) == {}
    assert meant(said("take {0} off {1}", take=0.5), complete=False) == {"take {0} off {1}": TAKE}


def test_of_two_strange_forms_for_one_template_the_one_counts_that_was_not_said_in_a_fix():
    meant_so, tried_so = said("grab {0} at {1}", take=0.5), said("stow {0} {1}", first=False, take=0.5)
    assert meant(meant_so, tried_so) == {"grab {0} at {1}": TAKE}
    assert meant(meant_so, said("stow {0} {1}", take=0.5)) == {}
    assert meant(said("grab {0} at {1}", first=False, take=0.5), tried_so) == {}
    assert meant(tried_so) == {"stow {0} {1}": TAKE}
