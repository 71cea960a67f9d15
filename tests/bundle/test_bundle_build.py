from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from potato_ray.bundle.builder import build
from potato_ray.bundle.reading import digest_of, read_manifest, read_rows, targets_of
from potato_ray.errors import Cancelled, RunFailed
from potato_ray.project import items

ITEMS = [{"id": f"i{number:03d}", "text": f"text {number}", "doc": number // 4} for number in range(200)]
ANSWERS = {"ann": {item["id"]: "good" if number % 3 else "bad" for number, item in enumerate(ITEMS[:120])}}


def share_of(instance_id):
    return int(hashlib.sha256(f"0:{instance_id}".encode()).hexdigest()[:8], 16) / 0xFFFFFFFF


def test_the_reviews_get_the_splits_that_potato_gave_them(potato, tmp_path):
    report = build(potato("review-sentiment", "sentiment"), tmp_path / "bundle")
    sizes = {name: split["n"] for name, split in report.manifest["splits"].items()}
    assert sizes == {"train": 94, "val": 28, "test": 28, "unlabeled": 0}


def test_the_pairs_bundle_holds_readable_texts_and_the_letters(potato, tmp_path):
    build(potato("pairs", "helpful"), tmp_path / "bundle")
    row = next(read_rows(tmp_path / "bundle", "train"))
    assert row["text"].startswith("A. ")
    assert len(row["texts"]) == 2
    assert row["targets"]["helpful"] in ("A", "B", "tie")


@pytest.mark.parametrize(
    ("project", "scheme", "target_type"),
    [
        ("multi-scheme", "tone", str),
        ("multi-scheme", "topics", list),
        ("multi-scheme", "quality", str),
        ("multi-scheme", "strength", float),
        ("multi-scheme", "stars", float),
        ("multi-scheme", "channel", str),
        ("multi-scheme", "summary", str),
        ("multi-scheme", "order", list),
        ("multi-scheme", "evidence", list),
        ("pairs", "margin", float),
        ("shapes", "busy", str),
    ],
)
def test_a_bundle_is_built_for_every_scheme_of_potatos_projects(
    potato, tmp_path, project, scheme, target_type
):
    report = build(potato(project, scheme), tmp_path / "bundle")
    targets = {
        instance_id: target
        for split in ("train", "val", "test")
        for instance_id, target in targets_of(tmp_path / "bundle", split, scheme).items()
    }
    assert targets
    assert all(type(target) is target_type for target in targets.values())
    assert report.manifest["schemas"][0]["name"] == scheme


def test_an_image_project_links_its_pictures(potato, tmp_path):
    report = build(potato("shapes", "busy", include_unlabeled=True), tmp_path / "bundle")
    rows = [row for split in report.splits for row in read_rows(tmp_path / "bundle", split)]
    assert report.manifest["modality"] == "image"
    assert report.manifest["stats"]["n_media_linked"] == len(rows) == 6
    assert all((tmp_path / "bundle" / "media" / row["media"]).read_bytes()[:4] == b"\x89PNG" for row in rows)


def test_the_manifest_on_disk_is_that_of_the_report(small, tmp_path):
    report = build(small(ITEMS, ANSWERS), tmp_path / "bundle")
    assert read_manifest(tmp_path / "bundle") == report.manifest
    assert json.loads((tmp_path / "bundle" / "labels.json").read_text()) == {"mood": ["good", "bad"]}
    assert report.manifest["stats"]["label_counts"] == {"good": 80, "bad": 40}
    assert report.manifest["stats"]["n_annotated"] == 120


def test_the_manifest_tells_the_range_of_a_scheme(potato, tmp_path):
    strength = build(potato("multi-scheme", "strength"), tmp_path / "one").manifest["schemas"][0]
    margin = build(potato("pairs", "margin"), tmp_path / "two").manifest["schemas"][0]
    assert (strength["options"]["min_value"], strength["options"]["max_value"]) == (0, 100)
    assert margin["options"] == {
        "mode": "scale",
        "items_key": "text",
        "scale": {"min": -3, "max": 3, "step": 1},
    }


def test_the_same_project_gives_the_same_digest(small, tmp_path):
    first = build(small(ITEMS, ANSWERS), tmp_path / "one").manifest["digest"]
    second = build(small(ITEMS, ANSWERS), tmp_path / "two").manifest["digest"]
    assert first == second == digest_of(tmp_path / "two")


def test_a_large_project_is_read_twice_and_gives_the_same_digest(small, tmp_path, monkeypatch):
    request = small(ITEMS, ANSWERS)
    once = build(request, tmp_path / "once").manifest["digest"]
    monkeypatch.setattr(items, "KEPT_BYTES", 10)
    assert items.index_items(request.paths).items is None
    assert build(request, tmp_path / "twice").manifest["digest"] == once


def test_another_answer_gives_another_digest(small, tmp_path):
    first = build(small(ITEMS, ANSWERS), tmp_path / "one").manifest["digest"]
    changed = {"ann": {**ANSWERS["ann"], "i000": "good"}}
    assert build(small(ITEMS, changed), tmp_path / "two").manifest["digest"] != first


def test_items_that_nobody_labelled_come_only_when_asked_and_without_targets(small, tmp_path):
    assert build(small(ITEMS, ANSWERS), tmp_path / "one").splits["unlabeled"] == []
    report = build(small(ITEMS, ANSWERS, include_unlabeled=True), tmp_path / "two")
    rows = list(read_rows(tmp_path / "two", "unlabeled"))
    assert report.splits["unlabeled"] == [item["id"] for item in ITEMS[120:]]
    assert not any("targets" in row for row in rows)
    assert report.manifest["splits"]["unlabeled"]["predict_only"] is True


def test_an_item_whose_answers_are_unusable_is_skipped_not_unlabelled(small, tmp_path):
    answers = {"ann": {**ANSWERS["ann"], "i150": "old label"}}
    report = build(small(ITEMS, answers, include_unlabeled=True), tmp_path / "bundle")
    assert "i150" not in report.splits["unlabeled"]
    assert report.manifest["stats"]["n_skipped_no_label"] == 1


def test_forced_items_go_to_train_and_are_counted(small, tmp_path):
    plain = build(small(ITEMS, ANSWERS), tmp_path / "one")
    held_out, in_train = plain.splits["test"][0], plain.splits["train"][0]
    forced = {held_out: "corrected", in_train: "pinned", "i199": "pinned", "nowhere": "pinned"}
    report = build(small(ITEMS, ANSWERS, forced_train=forced), tmp_path / "two")
    assert held_out in report.splits["train"]
    assert report.moved == (held_out,)
    counts = report.manifest["stats"]["forced_train"]
    assert (counts["corrected"], counts["pinned"], counts["moved"]) == (1, 1, 1)
    assert any("1 held-out item moved into train" in warning for warning in report.warnings)


def test_a_correction_stands_in_place_of_the_annotators_answers(small, tmp_path):
    corrections = {"i001": "bad", "i190": "good", "i002": "no label", "nowhere": "good"}
    request = small(ITEMS, ANSWERS, corrections=corrections, forced_train={"i001": "corrected"})
    report = build(request, tmp_path / "bundle")
    train = targets_of(tmp_path / "bundle", "train", "mood")
    assert train["i001"] == "bad"
    assert any("i190" in ids for ids in report.splits.values())
    assert any("'i002'" in warning for warning in report.warnings)


def test_ties_are_told_with_their_share_and_five_of_them(small, tmp_path):
    torn = {f"i{number:03d}": "bad" if number % 3 else "good" for number in range(10)}
    report = build(small(ITEMS, {**ANSWERS, "bob": torn}, aggregation="majority"), tmp_path / "bundle")
    (told,) = (warning for warning in report.warnings if "ties" in warning)
    assert told.startswith("10 of 120 resolved items (8%) are ties")
    assert "'i000', 'i001', 'i002', 'i003', 'i004' and 5 more" in told
    assert told in report.manifest["stats"]["warnings"]
    assert not any("too often" in warning for warning in report.warnings)


def test_two_annotators_who_always_disagree_are_told_loudly(small, tmp_path):
    opposite = {item: "bad" if label == "good" else "good" for item, label in ANSWERS["ann"].items()}
    report = build(small(ITEMS, {**ANSWERS, "bob": opposite}, aggregation="majority"), tmp_path / "bundle")
    assert any("(100%) are ties" in warning for warning in report.warnings)
    assert any("disagree too often to learn from" in warning for warning in report.warnings)


def test_a_tie_that_a_reviewer_decided_is_no_tie_any_more(small, tmp_path):
    answers = {**ANSWERS, "bob": {"i001": "bad"}}
    request = small(ITEMS, answers, aggregation="majority", corrections={"i001": "good"})
    assert not build(request, tmp_path / "bundle").warnings


def test_a_group_never_falls_into_two_splits(small, tmp_path):
    report = build(small(ITEMS, ANSWERS, group_key="doc"), tmp_path / "bundle")
    groups = {name: {int(item[1:]) // 4 for item in ids} for name, ids in report.splits.items()}
    assert groups["val"]
    assert not groups["train"] & groups["val"]
    assert not groups["train"] & groups["test"]
    assert not groups["val"] & groups["test"]


def test_the_group_of_a_forced_item_goes_with_it(small, tmp_path):
    plain = build(small(ITEMS, ANSWERS, group_key="doc"), tmp_path / "one")
    pinned = plain.splits["val"][0]
    request = small(ITEMS, ANSWERS, group_key="doc", forced_train={pinned: "pinned"})
    report = build(request, tmp_path / "two")
    counts = report.manifest["stats"]["forced_train"]
    assert (counts["pinned"], counts["group"], counts["moved"]) == (1, 3, 4)


def test_empty_texts_stay_out_of_train_and_in_the_held_out_splits(small, tmp_path):
    train, held_out = ("i000", "i001")
    assert share_of("i000") < 0.7
    held_out = next(item["id"] for item in ITEMS[:120] if share_of(item["id"]) > 0.7)
    items = [{**item, "text": ""} if item["id"] in (train, held_out) else item for item in ITEMS]
    report = build(small(items, ANSWERS), tmp_path / "bundle")
    assert train not in report.splits["train"]
    assert held_out in report.splits["val"] + report.splits["test"]
    assert report.manifest["stats"]["n_empty_text"] == 2
    assert any("1 item with an empty text stayed out" in warning for warning in report.warnings)


def test_a_broken_character_does_not_break_the_bundle(small, tmp_path):
    items = [{**ITEMS[0], "text": "a\ud800b"}, *ITEMS[1:]]
    report = build(small(items, ANSWERS), tmp_path / "bundle")
    assert report.manifest["stats"]["n_cleaned_text"] == 1
    assert any("'i000'" in warning for warning in report.warnings)


def test_nothing_to_train_on_says_what_is_there(small, tmp_path):
    other = {"user_id": "a", "instance_id_to_label_to_value": {"i001": {"feeling": {"good": "good"}}}}
    request = small(ITEMS, {"a": {}})
    (tmp_path / "annotation_output" / "a" / "user_state.json").write_text(json.dumps(other))
    with pytest.raises(RunFailed) as failed:
        build(request, tmp_path / "bundle")
    assert failed.value.code == "bundle_failed"
    assert str(failed.value).startswith("No resolved annotations to train on. There are 200 items and 0")
    assert "'feeling' (1)" in failed.value.evidence
    assert not list(tmp_path.glob("*bundle*"))


def test_duplicate_ids_fail_the_bundle_with_both_places(small, tmp_path):
    with pytest.raises(RunFailed, match=r"record 1 of items\.json and record 201 of items\.json") as failed:
        build(small([*ITEMS, ITEMS[0]], ANSWERS), tmp_path / "bundle")
    assert failed.value.code == "bundle_failed"


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4])
def test_a_cancelled_build_leaves_nothing_and_an_older_bundle_alone(small, tmp_path, after):
    items = [{"id": f"n{number}", "text": "t"} for number in range(2500)]
    answers = {"ann": {item["id"]: "good" for item in items}}
    old = build(small(ITEMS, ANSWERS), tmp_path / "bundle").manifest
    polls = []

    def stop():
        polls.append(1)
        return len(polls) > after

    with pytest.raises(Cancelled):
        build(small(items, answers), tmp_path / "bundle", should_stop=stop)
    assert read_manifest(tmp_path / "bundle") == old
    assert not list(tmp_path.glob(".bundle*"))


def test_what_a_killed_build_left_is_removed_by_the_next(small, tmp_path):
    left = tmp_path / ".bundle.building-x"
    left.mkdir()
    build(small(ITEMS, ANSWERS), tmp_path / "bundle")
    assert not left.exists()


def test_progress_is_told_step_by_step(small, tmp_path):
    steps = []
    items = [{"id": f"n{number}", "text": "t"} for number in range(2500)]
    request = small(items, {"ann": {"n1": "good"}})
    build(request, tmp_path / "bundle", progress=lambda *said: steps.append(said))
    assert ("reading the items", 1000, 0) in steps
    assert ("reading the annotations", 1, 1) in steps
    assert ("writing the bundle", 2000, 2500) in steps


def test_a_scheme_that_nobody_can_learn_says_why(small, tmp_path):
    from potato_ray.project.schemes import Scheme

    request = small(ITEMS, ANSWERS)
    video = Scheme("clip", "video", None, why_not="There is no answer in it.")
    with pytest.raises(RunFailed, match="There is no answer in it"):
        build(type(request)(request.paths, (video,)), tmp_path / "bundle")


def test_schemes_beyond_the_first_are_said_to_be_left_untrained(potato, tmp_path):
    asked = potato("multi-scheme", "tone")
    two = replace(asked, schemes=(*asked.schemes, *potato("multi-scheme", "trust").schemes, *asked.schemes))
    assert (
        "'trust' was not trained: a run trains the first scheme named, 'tone'."
        in build(two, tmp_path / "two").warnings
    )
    assert not any("was not trained" in each for each in build(asked, tmp_path / "one").warnings)
