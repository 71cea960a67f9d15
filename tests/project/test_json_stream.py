from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.project.json_stream import JsonStream, JsonTorn

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(json_values), st.integers(1, 40), st.sampled_from([None, 1]))
def test_an_array_comes_out_as_it_went_in_at_any_chunk_size(values, chunk, indent):
    stream = JsonStream(io.StringIO(json.dumps(values, indent=indent)), chunk)
    assert list(stream.array()) == values


@given(st.dictionaries(st.text(), json_values), st.integers(1, 40))
def test_members_come_out_one_by_one(value, chunk):
    stream = JsonStream(io.StringIO(json.dumps(value)), chunk)
    assert {key: stream.value() for key in stream.members()} == value


def test_a_skipped_object_leaves_the_stream_behind_it():
    stream = JsonStream(io.StringIO('[{"a": {"b": [1, 2]}}, 7]'), 3)
    stream.take("[")
    stream.skip()
    stream.take(",")
    assert stream.value() == 7


def test_a_number_cut_by_a_chunk_is_read_whole():
    assert list(JsonStream(io.StringIO("[12345678]"), 4).array()) == [12345678]


@pytest.mark.parametrize(
    "text", ["[1, 2", "[1 2]", '["ab', "[tru]", "{", "", "[" * 5000, "[" + "9" * 5000 + "]"]
)
def test_torn_text_is_reported_and_never_loops(text):
    with pytest.raises(JsonTorn):
        list(JsonStream(io.StringIO(text), 16).array())


def test_the_line_of_the_trouble_is_named():
    text = "[\n1,\n2,\nx]" + " " * 10_000
    with pytest.raises(JsonTorn, match="line 4"):
        list(JsonStream(io.StringIO(text), 2).array())


def test_an_error_far_from_the_end_does_not_read_the_rest():
    handle = io.StringIO("[x" + " " * 1_000_000)
    with pytest.raises(JsonTorn):
        list(JsonStream(handle, 10_000).array())
    assert handle.tell() < 100_000


def test_bytes_that_are_no_utf8_are_torn(tmp_path):
    path = tmp_path / "latin.json"
    path.write_bytes('["é"]'.encode("latin-1"))
    with path.open(encoding="utf-8") as handle, pytest.raises(JsonTorn, match="UTF-8"):
        list(JsonStream(handle).array())
