from __future__ import annotations

import json
import sys
import tracemalloc

import pytest

from potato_ray.errors import Cancelled, ProjectUnreadable
from potato_ray.project.items import index_items, read_items
from potato_ray.project.polling import StopPoll

ROWS = [{"id": 1, "text": "uno"}, {"id": "b", "text": "due"}]


def read(paths):
    return [(item.instance_id, item.text) for item in read_items(paths)]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.json", json.dumps(ROWS, indent=1)),
        ("a.json", "\ufeff" + json.dumps(ROWS)),
        ("a.json", '{"1": {"text": "uno"}, "b": {"text": "due"}}'),
        ("a.json", "\n".join(map(json.dumps, ROWS))),
        ("a.jsonl", "\n\n".join(map(json.dumps, ROWS)) + "\n"),
        ("a.csv", 'id,text\r\n1,uno\r\n"b","due"\r\n'),
        ("a.tsv", "id\ttext\n1\tuno\nb\tdue\n"),
    ],
)
def test_every_text_format_gives_the_same_items(make_project, file, text):
    assert read(make_project(items=text, file=file)) == [("1", "uno"), ("b", "due")]


def test_parquet_gives_the_same_items(make_project, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    paths = make_project(items="", file="a.parquet")
    parquet.write_table(pyarrow.table({"id": [1, 2], "text": ["uno", "due"]}), paths.data_paths[0])
    assert read(paths) == [("1", "uno"), ("2", "due")]


def test_parquet_without_pyarrow_names_the_pip_line(make_project, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ProjectUnreadable, match=r"-m pip install 'potato-ray\[parquet\]'"):
        read(make_project(items="", file="a.parquet"))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.json", '[{"id": 1}, {"id": '),
        ("a.json", '[{"id": 1}] trailing'),
        ("a.json", "7"),
        ("a.json", '["just a text"]'),
        ("a.jsonl", '{"id": 1, "text": "a"}\n{torn'),
        ("a.jsonl", "[1]"),
        ("a.csv", 'id,text\n1,"never closed'),
        ("a.parquet", "no parquet"),
        ("a.xlsx", "x"),
        ("a.json", '[{"text": "no id"}]'),
        ("a.json", '[{"id": null, "text": "no id"}]'),
        ("a.json", '[{"id": {}, "text": "no id"}]'),
    ],
)
def test_a_file_that_cannot_be_read_is_named(make_project, file, text):
    with pytest.raises(ProjectUnreadable, match=file.replace(".", r"\.")):
        read(make_project(items=text, file=file))


def test_a_missing_file_is_named(make_project):
    paths = make_project()
    paths.data_paths[0].unlink()
    with pytest.raises(ProjectUnreadable, match=r"items\.json does not exist"):
        read(paths)


def test_duplicate_ids_name_the_id_and_both_places(make_project):
    paths = make_project(items=[{"id": "x", "text": "a"}, {"id": 7, "text": "b"}, {"id": "7", "text": "c"}])
    with pytest.raises(ProjectUnreadable) as error:
        index_items(paths)
    assert error.value.code == "duplicate_id"
    assert "'7'" in error.value.message
    assert "record 2 of items.json and record 3 of items.json" in error.value.evidence


def test_the_unnamed_column_of_a_table_is_no_id(make_project):
    paths = make_project(items=",uid,text\n0,a,uno\n1,b,due\n", file="a.csv")
    with pytest.raises(ProjectUnreadable, match="has no id") as error:
        read(paths)
    assert "'uid'" in error.value.evidence


def test_an_unnamed_column_beside_the_id_stays_a_field(make_project):
    (item,) = read_items(make_project(items=",id,text\n0,a,uno\n", file="a.csv"))
    assert (item.instance_id, item.fields) == ("a", {"": "0", "id": "a", "text": "uno"})


def test_the_key_of_an_object_of_objects_is_no_field(make_project):
    (item,) = read_items(make_project(items={"a": {"text": "uno"}}))
    assert (item.instance_id, item.fields) == ("a", {"text": "uno"})


@pytest.mark.parametrize("value", ["NaN", "null", "[]", "{}", '""'])
def test_a_value_that_can_be_no_id_is_refused(make_project, value):
    with pytest.raises(ProjectUnreadable, match="has no id"):
        read(make_project(items=f'[{{"id": {value}, "text": "a"}}]'))


def test_a_lone_surrogate_is_replaced_and_its_item_named(make_project):
    index = index_items(
        make_project(items='[{"id": "bad", "text": "a\\ud800b"}, {"id": "ok", "text": "\\ud83d\\ude00"}]')
    )
    assert index.n_cleaned == 1
    assert "'bad'" in index.warnings[0]


def test_a_list_of_texts_is_joined_with_its_prefix_and_kept(make_project):
    rows = [{"id": "p", "text": ["first", "second"]}]
    item = next(read_items(make_project(items=rows)))
    assert item.text == "A. first\nB. second"
    assert item.texts == ("first", "second")
    numbered = next(read_items(make_project(items=rows, file="n.json", list_prefix="number")))
    assert numbered.text == "1. first\n2. second"


def test_a_dialogue_reads_as_speakers_and_lines(make_project):
    turns = [{"speaker": "Ann", "text": "Hi"}, {"speaker": "Bob", "text": "Hello"}]
    paths = make_project(items=[{"id": "d", "text": turns}], list_prefix="none")
    assert next(read_items(paths)).text == "Ann: Hi\nBob: Hello"


def test_empty_texts_are_found_and_html_is_kept(make_project):
    rows = [
        {"id": "a", "text": " \n"},
        {"id": "b"},
        {"id": "c", "text": ["", ""]},
        {"id": "d", "text": "<b>x</b>"},
    ]
    index = index_items(make_project(items=rows))
    assert index.empty == {"a", "b", "c"}
    assert read(make_project(items=rows, file="b.json"))[-1] == ("d", "<b>x</b>")


def test_a_text_key_that_no_item_has_is_an_error(make_project):
    with pytest.raises(ProjectUnreadable, match="No item has the field 'body'"):
        index_items(make_project(text_key="body"))


def test_groups_are_kept_as_texts_and_missing_ones_warned_of(make_project):
    rows = [{"id": "a", "text": "x", "doc": 4}, {"id": "b", "text": "x"}, {"id": "c", "text": "x", "doc": ""}]
    index = index_items(make_project(items=rows), group_key="doc")
    assert index.groups == ["4", None, None]
    assert "2 item(s) lack 'doc'" in index.warnings[0]


def test_reading_stops_when_asked(make_project):
    paths = make_project(items=[{"id": n, "text": "t"} for n in range(3000)])
    poll = StopPoll(lambda: True)
    seen = []
    with pytest.raises(Cancelled):
        index_items(paths, on_item=lambda count: (seen.append(count), poll()))
    assert len(seen) == 1000


def test_a_large_array_is_never_held_as_a_whole(make_project):
    paths = make_project(items=[{"id": n, "text": "long " * 200} for n in range(10_000)])
    assert paths.data_paths[0].stat().st_size > 10_000_000
    tracemalloc.start()
    count = sum(1 for _ in read_items(paths))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 10_000
    assert peak < 4_000_000
