"""docs/faults.md shows the table that the tests of killed processes go by."""

from __future__ import annotations

from pathlib import Path

from fault_matrix import MATRIX, PHASES, rows

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


def test_the_page_shows_the_table_of_the_tests() -> None:
    assert "\n".join(rows()) in PAGE.read_text("utf-8")


def test_the_table_has_an_end_for_every_phase() -> None:
    assert {len(ends) for ends in MATRIX.values()} == {len(PHASES)}


def test_the_page_says_what_each_process_is_for() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    for victim in MATRIX:
        assert sum(line.startswith(f"| {victim} |") for line in lines) == 2, victim
