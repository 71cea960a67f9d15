from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from potato_ray.bundle.reading import read_manifest, read_rows, targets_of
from potato_ray.bundle.request import BundleRequest
from potato_ray.config.training import Splits
from potato_ray.errors import StartRefused


def test_an_item_with_several_rows_has_one_target(tmp_path):
    rows = [{"instance_id": "a", "row": n, "text": "t", "targets": {"s": "x"}} for n in range(3)]
    rows.append({"instance_id": "b", "text": "t"})
    (tmp_path / "val.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert targets_of(tmp_path, "val", "s") == {"a": "x"}


def test_a_line_separator_inside_of_a_text_ends_no_row(tmp_path):
    text = "one\u2028two\u0085three\rfour"
    line = json.dumps({"instance_id": "a", "text": text}, ensure_ascii=False)
    (tmp_path / "val.jsonl").write_text(line + "\n", "utf-8")
    assert [row["text"] for row in read_rows(tmp_path, "val")] == [text]


def test_an_unknown_split_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no split 'dev'"):
        next(read_rows(tmp_path, "dev"))


@pytest.mark.parametrize("body", ["[]", '{"v": 2}', "{torn"])
def test_a_manifest_of_another_kind_is_refused(tmp_path, body):
    (tmp_path / "manifest.json").write_text(body)
    with pytest.raises(ValueError, match=r"version 1|Expecting"):
        read_manifest(tmp_path)


def config(tmp_path):
    training = SimpleNamespace(
        split_seed=3,
        splits=Splits(train=8, test=2),
        aggregation="majority",
        group_key="doc",
        writeback=SimpleNamespace(include_unlabeled=True),
    )
    return SimpleNamespace(
        task_dir=tmp_path,
        data_paths=(tmp_path / "items.json",),
        output_dir=tmp_path / "out",
        media_directory="media",
        item_properties=SimpleNamespace(id_key="key", text_key="body"),
        annotation_schemes=[{"name": "mood", "annotation_type": "radio", "labels": ["good"]}],
        model_training=training,
    )


def test_a_request_takes_everything_from_the_configuration(tmp_path):
    request = BundleRequest.from_config(config(tmp_path), ["mood"], forced_train={"a"})
    assert request.scheme.labels == ("good",)
    assert request.fractions == {"train": 0.8, "val": 0.0, "test": 0.2}
    assert (request.paths.id_key, request.paths.media_directory) == ("key", tmp_path / "media")
    assert (request.split_seed, request.group_key, request.forced_train) == (3, "doc", {"a": "forced"})


def test_a_request_for_an_unknown_scheme_is_refused(tmp_path):
    with pytest.raises(StartRefused):
        BundleRequest.from_config(config(tmp_path), ["nope"])
