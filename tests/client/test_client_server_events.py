"""Server-Sent Events: however the bytes are cut, the same events come out, and each once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.client.failures import ProtocolError
from potato_ray.client.server_events import MAX_LINE_BYTES, EventReader, Lines, ServerEvent

STREAM = (
    '\ufeffretry: 2000\n\nid: 1\nevent: status\ndata: {"a": 1}\n\n: nothing new\n\nid: 2\ndata: é\ndata:b\n\n'
)
EVENTS = [ServerEvent("status", '{"a": 1}', "1"), ServerEvent("message", "é\nb", "2")]


def read(pieces: Iterable[bytes], reader: EventReader | None = None) -> list[ServerEvent]:
    reader = reader or EventReader()
    return [event for piece in pieces for event in reader.add(piece)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_in_any_of_three_ways(end: str) -> None:
    whole = STREAM.replace("\n", end).encode()
    # A lone \r at the very end may yet be half of \r\n, so one more byte decides.
    assert read([whole, b":\n"]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM.encode())), max_size=20))
def test_events_do_not_depend_on_how_the_bytes_are_cut(cuts: list[int]) -> None:
    whole = STREAM.replace("\n", "\r\n").encode()
    places = [0, *sorted(cuts), len(whole)]
    pieces = [whole[begin:end] for begin, end in pairwise(places)]
    assert read(pieces) == EVENTS


def test_an_event_without_data_is_none_but_its_id_counts() -> None:
    reader = EventReader()
    assert read([b"id: 7\nevent: status\n\n"], reader) == []
    assert reader.last_id == "7"


def test_what_was_cut_is_forgotten_and_its_id_with_it() -> None:
    reader = EventReader()
    read([b"id: 1\ndata: a\n\nid: 2\ndata: b"], reader)
    reader.cut()
    assert reader.last_id == "1"
    assert read([b"id: 2\ndata: b\n\n"], reader) == [ServerEvent("message", "b", "2")]


def test_data_that_is_no_json_is_none() -> None:
    assert ServerEvent("status", "{", "").json() is None


def test_a_line_without_end_is_refused() -> None:
    lines = Lines()
    assert list(lines.add(b"x" * MAX_LINE_BYTES)) == []
    with pytest.raises(ProtocolError):
        list(lines.add(b"x"))
