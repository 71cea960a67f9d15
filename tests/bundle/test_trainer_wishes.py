"""What a trainer may ask of its bundle: fields of the items, and groups that share a split."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from potato_ray.bundle.builder import build
from potato_ray.bundle.reading import read_rows
from potato_ray.bundle.request import CORRECTED
from potato_ray.errors import RunFailed
from potato_ray.trainers.base import Grouping, Requirement, TrainerError
from potato_ray.trainers.sklearn_text import SklearnText

ITEMS = [
    {"id": f"i{number:03d}", "text": f"text {number}", "doc": number // 6 if number < 90 else None}
    for number in range(120)
]
ANSWERS = {"ann": {item["id"]: "good" if number % 3 else "bad" for number, item in enumerate(ITEMS)}}


class Sloppy(SklearnText):
    """Fails where it is told to, as somebody's own trainer may."""

    name = "sloppy"

    @classmethod
    def item_fields(cls, params):
        return ("doc",) if params["fails"] != "fields" else (params["field"],)

    @classmethod
    def grouping(cls, params):
        if params["fails"] == "groups":
            raise RuntimeError("no way to group")
        if params["fails"] == "in words":
            raise TrainerError("validation_failed", "There are no documents.", "Add some.")
        return Grouping("document", lambda row: row["fields"]["document"].strip())


class ByDocument(SklearnText):
    """Reads the field `doc`, and wants the items of a document in one split."""

    name = "by-document"

    @classmethod
    def item_fields(cls, params):
        return (params["field"],) if params.get("field") else ()

    @classmethod
    def grouping(cls, params):
        if not params.get("group"):
            return None
        needs = tuple(Requirement(name, name) for name in params.get("needs", ()))
        return Grouping("document", lambda row: row["fields"]["doc"], needs, "pip install paperwork")


BY_DOCUMENT = f"{__name__}:ByDocument"
SLOPPY = f"{__name__}:Sloppy"


@pytest.fixture
def wishing(small):
    """wishing(params, **fields): a request whose trainer has these parameters."""

    def make(params, items=ITEMS, **fields):
        return small(items, ANSWERS, trainer=BY_DOCUMENT, params=params, **fields)

    return make


def split_of(report):
    return {item: split for split, items in report.splits.items() for item in items}


def test_rows_hold_the_fields_that_the_trainer_reads_as_texts(wishing, tmp_path):
    manifest = build(wishing({"field": "doc"}), tmp_path / "bundle").manifest
    rows = {row["instance_id"]: row["fields"] for row in read_rows(tmp_path / "bundle", "train")}
    assert manifest["fields"] == ["doc"]
    assert all(rows[key] == {"doc": str(int(key[1:]) // 6) if key < "i090" else ""} for key in rows)


def test_rows_hold_no_fields_where_the_trainer_reads_none(wishing, tmp_path):
    manifest = build(wishing({}), tmp_path / "bundle").manifest
    assert (manifest["fields"], manifest["split_by"], manifest["stats"]["n_regrouped"]) == ([], None, 0)
    assert "fields" not in next(read_rows(tmp_path / "bundle", "train"))


def test_a_field_that_no_item_has_is_refused_with_those_that_there_are(wishing, tmp_path):
    with pytest.raises(RunFailed, match="No item has the field 'smile'") as refusal:
        build(wishing({"field": "smile"}), tmp_path / "bundle")
    assert "'id', 'text', 'doc'" in refusal.value.evidence


def test_the_items_of_a_group_share_a_split_and_the_others_keep_that_of_the_study(wishing, tmp_path):
    own = split_of(build(wishing({"field": "doc", "group": True}), tmp_path / "own"))
    study = split_of(build(wishing({}), tmp_path / "study"))
    for start in range(0, 90, 6):
        assert len({own[f"i{number:03d}"] for number in range(start, start + 6)}) == 1
    assert all(own[item["id"]] == study[item["id"]] for item in ITEMS[90:])


def test_how_many_items_have_left_the_study_s_split_is_counted_and_warned_of(wishing, tmp_path):
    report = build(wishing({"field": "doc", "group": True}), tmp_path / "own")
    study = split_of(build(wishing({}), tmp_path / "study"))
    moved = sum(split != study[item] for item, split in split_of(report).items())
    assert report.manifest["stats"]["n_regrouped"] == moved > 0
    assert report.manifest["split_by"] == "document"
    [warning] = [line for line in report.warnings if "are split by document" in line]
    assert f"{moved} of 120 items with an answer are in another split" in warning


def test_the_rest_of_a_group_goes_to_train_with_a_corrected_item(wishing, tmp_path):
    params = {"field": "doc", "group": True}
    free = build(wishing(params), tmp_path / "free")
    held_out = next(item for item in free.splits["val"] if item < "i090")
    forced = split_of(build(wishing(params, forced_train={held_out: CORRECTED}), tmp_path / "forced"))
    start = int(held_out[1:]) // 6 * 6
    assert {forced[f"i{number:03d}"] for number in range(start, start + 6)} == {"train"}


def test_a_package_that_is_missing_where_the_bundle_is_built_is_named_with_its_install_line(
    wishing, tmp_path
):
    request = wishing({"field": "doc", "group": True, "needs": ["paperwork"]})
    with pytest.raises(RunFailed, match="Items cannot be split by document: paperwork is missing") as failure:
        build(request, tmp_path / "bundle")
    assert failure.value.code == "missing_dependency"
    assert failure.value.next_step == f"Run: {sys.executable} -m pip install paperwork"


def test_a_trainer_that_reads_a_field_looks_at_no_pictures(small, tmp_path):
    items = [{**item, "text": f"{item['id']}.png"} for item in ITEMS]
    request = small(items, ANSWERS, trainer=BY_DOCUMENT, params={"field": "doc"})
    assert build(request, tmp_path / "bundle").manifest["modality"] == "text"


def test_a_trainer_of_pictures_keeps_them_beside_its_field(small, tmp_path, monkeypatch):
    monkeypatch.setattr(ByDocument, "modalities", ("image",))
    items = [{**item, "text": f"{item['id']}.png"} for item in ITEMS]
    request = small(items, ANSWERS, trainer=BY_DOCUMENT, params={"field": "doc"})
    assert build(request, tmp_path / "bundle").manifest["modality"] == "image"


def test_an_item_without_text_is_kept_where_the_trainer_reads_a_field_of_it(small, tmp_path):
    items = [{**item, "text": ""} for item in ITEMS]
    request = small(items, ANSWERS, trainer=BY_DOCUMENT, params={"field": "doc"})
    manifest = build(request, tmp_path / "bundle").manifest
    train = {row["instance_id"] for row in read_rows(tmp_path / "bundle", "train")}
    assert train
    assert max(train) < "i090"
    assert 0 < manifest["stats"]["n_empty_text_left_out"] <= 30


@pytest.mark.parametrize(
    ("fails", "asked", "evidence"),
    [
        ("fields", "which fields of the items it reads", "KeyError: 'field'"),
        ("groups", "how the items are to be grouped", "RuntimeError: no way to group"),
        ("item", "for the group of item 'i000'", "KeyError: 'document'"),
    ],
)
def test_a_trainer_that_fails_when_it_is_asked_is_named(small, tmp_path, fails, asked, evidence):
    request = small(ITEMS, ANSWERS, trainer=SLOPPY, params={"fails": fails})
    with pytest.raises(RunFailed, match=f"Trainer 'sloppy' failed when it was asked {asked}") as failure:
        build(request, tmp_path / "bundle")
    assert (failure.value.code, failure.value.evidence) == ("bundle_failed", evidence)
    assert "Mend trainer 'sloppy'" in failure.value.next_step


@pytest.mark.parametrize(
    ("trainer", "code", "words"),
    [
        ("nobodys", "bad_spec", "There is no trainer 'nobodys'"),
        ("no_such_module:Trainer", "missing_dependency", "No module named 'no_such_module'"),
    ],
)
def test_a_trainer_that_is_not_there_where_the_bundle_is_built_is_told(small, tmp_path, trainer, code, words):
    with pytest.raises(RunFailed, match=words) as failure:
        build(small(ITEMS, ANSWERS, trainer=trainer), tmp_path / "bundle")
    assert failure.value.code == code
    assert sys.executable in failure.value.evidence
    assert "there, or choose another one of hf-text-classification, " in failure.value.next_step


def test_what_a_trainer_says_of_its_own_failure_is_passed_on(small, tmp_path):
    request = small(ITEMS, ANSWERS, trainer=SLOPPY, params={"fails": "in words"})
    with pytest.raises(RunFailed, match=r"There are no documents\.") as failure:
        build(request, tmp_path / "bundle")
    assert (failure.value.code, failure.value.next_step) == ("validation_failed", "Add some.")


def test_who_is_warned_of_groups_reads_what_becomes_of_the_group_key(wishing, tmp_path):
    items = [{**item, "writer": number % 10} for number, item in enumerate(ITEMS)]
    request = replace(wishing({"field": "doc", "group": True}, items=items), group_key="writer")
    [warning] = [line for line in build(request, tmp_path / "own").warnings if "are split by" in line]
    assert "group_key (writer) is not used in this run." in warning
