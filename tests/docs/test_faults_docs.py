"""docs/faults.md shows the tables that the tests of killed processes go by."""

from __future__ import annotations

from pathlib import Path

import agent_fault_matrix
import fault_matrix
import pytest
from fault_matrix import Matrix, Phases, rows

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
TABLES = [
    pytest.param(fault_matrix.MATRIX, fault_matrix.PHASES, id="on this machine"),
    pytest.param(agent_fault_matrix.MATRIX, agent_fault_matrix.PHASES, id="on an agent"),
]


@pytest.mark.parametrize(("matrix", "phases"), TABLES)
def test_the_page_shows_the_table_of_the_tests(matrix: Matrix, phases: Phases) -> None:
    assert "\n".join(rows(matrix, phases)) in PAGE.read_text("utf-8")


@pytest.mark.parametrize(("matrix", "phases"), TABLES)
def test_the_table_has_an_end_for_every_phase(matrix: Matrix, phases: Phases) -> None:
    assert {len(ends) for ends in matrix.values()} == {len(phases)}


def test_the_page_says_what_each_process_is_for() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    tables = (fault_matrix.MATRIX, agent_fault_matrix.MATRIX)
    for victim in {*fault_matrix.MATRIX, *agent_fault_matrix.MATRIX}:
        shown = sum(line.startswith(f"| {victim} |") for line in lines)
        assert shown == 1 + sum(victim in table for table in tables), victim


def test_the_page_names_the_phases_of_an_agents_run_that_no_other_run_has() -> None:
    text = PAGE.read_text("utf-8")
    own = set(agent_fault_matrix.PHASES) - set(fault_matrix.PHASES) - {"training", "predicting"}
    assert [phase for phase in own if f"`{phase}`, " not in text] == []
