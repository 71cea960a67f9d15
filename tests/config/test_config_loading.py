"""Files that cannot be read as they are: one finding, with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from potato_ray.config import Validation, validate
from potato_ray.config.loading import read_document

Validate = Callable[[str], Validation]


def only(found: Validation) -> tuple[str, int | None, str]:
    [finding] = found.findings
    return finding.code, finding.line, finding.text


@pytest.mark.parametrize(
    ("content", "code", "line", "message"),
    [
        (b"", "not_a_mapping", None, "The file is empty"),
        (b"# nothing\n", "not_a_mapping", None, "The file is empty"),
        (b"- a\n- b\n", "not_a_mapping", 1, "The file holds a list"),
        (b"just words\n", "not_a_mapping", 1, "The file holds a single value"),
        (b"a: [1, 2\nb: 3\n", "syntax", 2, "not valid YAML at column 2"),
        (b"a: 1\n  b: 2\n", "syntax", 2, "at column 4"),
        (b"a: 1\n\tb: 2\n", "syntax", 2, "at column 1"),
        (b'a: "torn\n', "syntax", 2, "unexpected end of stream"),
        (b"a: *nowhere\n", "syntax", 1, "undefined alias"),
        (b"a: 1\n---\nb: 2\n", "syntax", 2, "expected a single document"),
        (b"a: \x00\n", "syntax", 1, "U+0000"),
        (b"a: 1\nname: caf\xe9\n", "not_utf8", 2, "byte 0xe9. Save it as UTF-8"),
        ("a: 1\n".encode("utf-16"), "not_utf8", 1, "UTF-16"),
        (b"[" * 5000, "too_large", None, "nested too deeply"),
    ],
)
def test_an_unreadable_file_is_one_finding(
    folder: Path, content: bytes, code: str, line: int | None, message: str
) -> None:
    path = folder / "config.yaml"
    path.write_bytes(content)
    found_code, found_line, text = only(validate(path))
    assert (found_code, found_line) == (code, line)
    assert message in text


def test_a_missing_file_and_a_folder_are_named(folder: Path) -> None:
    assert only(validate(folder / "no.yaml"))[2] == f"There is no file {folder / 'no.yaml'}."
    assert "cannot be read: Is a directory" in only(validate(folder))[2]


def test_a_key_that_stands_twice_is_an_error_with_both_lines(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text("debug: false\nmodel_training:\n  queue_max: 1\n  queue_max: 2\n", encoding="utf-8")
    [twice] = [finding for finding in validate(path).errors if finding.code == "duplicate_key"]
    assert str(twice) == "line 4: model_training.queue_max: stands twice, in lines 3 and 4"


def test_anchors_and_merges_work_and_own_keys_win(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text(
        "base: &b {host: g, port: 22}\ngpu:\n  <<: *b\n  port: 23\nlist: [*b]\n", encoding="utf-8"
    )
    document = read_document(path)
    assert document.data["gpu"] == {"host": "g", "port": 23}
    assert document.line(("gpu", "host")) == 1
    assert document.line(("gpu", "port")) == 4
    assert not document.findings


def test_aliases_that_multiply_without_end_are_refused(folder: Path) -> None:
    rows = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    path = folder / "config.yaml"
    path.write_text("\n".join(rows), encoding="utf-8")
    assert only(validate(path))[0] == "too_large"


def test_a_value_that_refers_to_itself_is_an_error(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text("model_training: &m {trainer_params: *m}\n", encoding="utf-8")
    assert "model_training.trainer_params: refers to itself" in validate(path).as_text()


def test_tags_of_python_are_refused(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text("a: !!python/object/apply:os.system ['true']\n", encoding="utf-8")
    assert "has the tag tag:yaml.org,2002:python/object/apply:os.system" in validate(path).as_text()


def test_values_that_yaml_turns_into_something_else_stay_what_was_meant(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text("time: 12:00:00\nday: 2026-01-02\ndelta: 1e-5\nbig: 1_000\n7: x\n", encoding="utf-8")
    data = read_document(path).data
    assert data == {"time": "12:00:00", "day": "2026-01-02", "delta": 1e-5, "big": 1000, "7": "x"}


def test_a_mark_at_the_start_and_windows_line_ends_change_nothing(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: 2\r\n")
    document = read_document(path)
    assert document.data == {"a": 1, "b": {"c": 2}}
    assert document.line(("b", "c")) == 3


def test_a_json_configuration_has_lines_too(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(
        '{\n\t"a": 1,\n\t"b": {\n\t\t"c": "\\ud83d\\ude00\\/", "d": 1e5\n\t}\n}\n', encoding="utf-8"
    )
    document = read_document(path)
    assert document.data == {"a": 1, "b": {"c": "😀/", "d": 1e5}}
    assert document.line(("b", "c")) == 4
    assert not document.findings


def test_broken_json_names_line_and_column(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text('{\n  "a" 1\n}\n', encoding="utf-8")
    code, line, text = only(validate(path))
    assert (code, line) == ("syntax", 2)
    assert "not valid JSON at column 7" in text


def test_json_keys_that_stand_twice_are_found(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text('{"debug": true,\n "debug": false}', encoding="utf-8")
    assert "debug: stands twice, in lines 1 and 2" in validate(path).as_text()


@pytest.mark.parametrize("name", ["x" * 5000, "a\\0b", "\\ud800", "~nobody-here/x"])
def test_a_name_that_no_file_can_have_is_not_found(folder: Path, name: str) -> None:
    path = folder / "config.yaml"
    path.write_text(f'task_dir: "{name}"\ndata_files: ["{name}"]\n', encoding="utf-8")
    found = validate(path)
    assert "Data file not found" in found.as_text()


KEYS = [
    *("model_training", "backends", "gpu", "type", "splits", "train", "writeback", "schemas", "auto_retrain"),
    *(
        "enabled",
        "trainer",
        "trainer_params",
        "sklearn-text",
        "dp",
        "time",
        "env",
        "annotation_schemes",
        "labels",
    ),
    *(
        "name",
        "annotation_type",
        "description",
        "data_files",
        "path",
        "task_dir",
        "item_properties",
        "id_key",
    ),
    *("validation", "acknowledge", "pre_annotation", "field", "tiling", "overlap_px", "remote_dir", "params"),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["ssh", "slurm", "local", "sklearn-text", "radio", "s", "data/items.json", "~x", "/tmp"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=30,
)
QUICK = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@QUICK
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
def test_no_values_whatever_make_validation_fail(folder: Path, data: dict[str, object]) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    found = validate(path)
    assert found.errors
    assert found.as_text().encode("utf-8")
    assert json.dumps(found.as_json())


@QUICK
@given(
    st.text(alphabet=st.sampled_from("ab:-[]{}&*!?|>'\"#%@,. \n\t<=~01e_"), max_size=60)
    | st.text(max_size=30)
)
def test_no_text_whatever_makes_validation_fail(folder: Path, text: str) -> None:
    path = folder / "config.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert validate(path).errors
