"""Numbers and lengths of time as pages write them."""

from __future__ import annotations

import pytest

from potato_ray.server.wording import duration, iso_time, number, score, when


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, ""),
        (-3, "0.0 s"),
        (0.42, "0.4 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (4321, "1 h 12 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_a_length_of_time_has_the_units_that_matter(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(18231, "18,231"), (0.79649, "0.796"), (0.00012, "0.00012"), (12345.678, "1.235e+04"), (True, "True")],
)
def test_a_number_has_the_digits_that_matter(value: object, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "1.000"),
        (0.0, "0.000"),
        (-0.0, "0.000"),
        (-1.1e-17, "0.000"),
        (-0.25, "-0.250"),
        (0.00012, "0.00012"),
        (99.5, "99.500"),
        (1000.0, "1,000"),
    ],
)
def test_a_score_has_three_decimals_also_where_it_is_whole(value: float, shown: str) -> None:
    assert score(value) == shown


def test_times_are_utc_for_people_and_for_machines() -> None:
    assert when(1772357400.25) == "2026-03-01 09:30 UTC"
    assert iso_time(1772357400.25) == "2026-03-01T09:30:00Z"
    assert when(None) == iso_time(None) == ""
