"""What people are told about answers that the annotators did not agree on."""

from __future__ import annotations

from potato_ray.bundle.agreement import agreement_warnings
from potato_ray.project.consensus import Resolution


def test_agreement_needs_no_sentence() -> None:
    assert list(agreement_warnings(Resolution({"a": "x"}, 0), 1)) == []


def test_a_fifth_of_ties_is_told_quietly_and_more_than_a_fifth_loudly() -> None:
    few = Resolution({}, 2, tied=["a", "b"])
    assert len(list(agreement_warnings(few, 10))) == 1
    quiet, loud = agreement_warnings(few, 9)
    assert "(22%)" in quiet
    assert "different answers to 2 items" in loud


def test_a_rare_tie_is_not_rounded_away() -> None:
    (told,) = agreement_warnings(Resolution({}, 1, tied=["a"]), 1000)
    assert "1 of 1000 resolved items (less than 1%) is a tie, which" in told


def test_items_left_out_without_a_majority_are_named_unless_a_reviewer_answered() -> None:
    (told,) = agreement_warnings(Resolution({}, 2, unresolved=["a", "b"]), 1, {"b"})
    assert told.startswith("1 item was left out")
    assert "'a'" in told
