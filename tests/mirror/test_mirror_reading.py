"""What a trainer said by accident is made harmless, what no honest agent sends is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from potato_ray.job.follow import parse_event
from potato_ray.mirror.reading import MAX_LOG_CHARS, as_object, progress_of, result_of
from potato_ray.mirror.refusals import Malformed
from potato_ray.mirror.secrecy import without_secrets


def line_of(event: str) -> Any:
    """What is kept of an event that was sent in these characters."""
    (line,) = progress_of(as_object(b'{"first_seq": 0, "events": [%s]}' % event.encode())).events
    return json.loads(line)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
def test_a_number_that_is_none_becomes_null(number: str) -> None:
    assert line_of(f'{{"event": "metric", "value": {number}}}') == {"event": "metric", "value": None}


def test_a_number_beyond_all_counting_becomes_one_that_others_can_read() -> None:
    assert line_of('{"n": 123456789012345678901234567890}') == {"n": 1.2345678901234568e29}
    assert line_of('{"n": 9007199254740991}') == {"n": 9007199254740991}


def test_half_a_character_becomes_a_question_mark() -> None:
    assert line_of('{"event": "log", "message": "a \\ud800 b"}')["message"] == "a ? b"


def test_what_is_no_event_keeps_its_place_and_is_a_warning_to_whoever_reads_it() -> None:
    report = progress_of(as_object(b'{"first_seq": 0, "events": [1, "x", {"event": "rm -rf"}, null]}'))
    assert len(report.events) == 4
    for line in report.events:
        assert b"\n" not in line
        assert parse_event(line)["level"] == "warning"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"\xff",
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b'{"first_seq": 0, "events": [' + b"[" * 3000 + b"]" * 3000 + b"]}",
        b'{"n": ' + b"1" * 100_000 + b"}" + b"x",
    ],
)
def test_a_body_that_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        progress_of(as_object(raw))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"first_seq": -1},
        {"first_seq": True},
        {"first_seq": 1.5},
        {"first_seq": "0"},
        {"first_seq": 2**60},
        {"first_seq": 0, "events": {}},
        {"first_seq": 0, "events": [{}] * 1001},
        {"first_seq": 0, "notes": "x"},
        {"first_seq": 0, "notes": [{"kind": "ended"}]},
        {"first_seq": 0, "notes": [{"kind": ["step"]}]},
        {"first_seq": 0, "notes": [{"kind": "step", "step": 1}]},
        {"first_seq": 0, "alive": "yes"},
    ],
)
def test_a_report_with_a_field_of_another_type_is_refused_with_a_reason(body: dict[str, Any]) -> None:
    with pytest.raises(Malformed) as refused:
        progress_of(body)
    assert refused.value.message


@pytest.mark.parametrize(
    "body",
    [
        {"exit": None},
        {"exit": 0, "next_seq": 0},
        {"exit": {"code": "0"}, "next_seq": 0},
        {"exit": {"reason": "because"}, "next_seq": 0},
        {"exit": {"code": 2**40}, "next_seq": 0},
        {"next_seq": 0, "failure": "x"},
        {"next_seq": 0, "failure": {"message": "no code"}},
        {"next_seq": 0, "artifact_uri": []},
    ],
)
def test_a_result_with_a_field_of_another_type_is_refused_with_a_reason(body: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        result_of(body)


def test_an_exit_with_impossible_figures_has_none() -> None:
    result = result_of({"exit": {"code": 0, "peak_rss_mb": -1, "started_at": float("nan")}, "next_seq": 0})
    assert result.exit is not None
    assert (result.exit.peak_rss_mb, result.exit.started_at) == (0.0, 0.0)


def test_of_a_long_log_the_end_is_kept() -> None:
    result = result_of({"next_seq": 0, "agent_log": "x" * MAX_LOG_CHARS + "end\0"})
    assert (len(result.agent_log), result.agent_log[-4:]) == (MAX_LOG_CHARS, "end?")


def test_notes_of_the_agent_have_their_fields_and_no_others() -> None:
    notes = [{"kind": "log", "level": "shouting", "message": "m", "x": 1}, {"kind": "step", "step": "s"}]
    report = progress_of({"first_seq": 0, "notes": notes})
    assert [json.loads(line) for line in report.notes] == [
        {"kind": "log", "level": "warning", "message": "m"},
        {"kind": "step", "step": "s"},
    ]


def test_secrets_in_a_body_are_taken_out_before_it_is_read() -> None:
    body = b'{"agent_log": "Bearer prt_abcdefghijklmnopqrstuvwxyz0123456789 lease 00ff"}'
    hidden = without_secrets(body, ("00ff", ""))
    assert json.loads(hidden) == {"agent_log": "Bearer [hidden] lease [hidden]"}
