"""Annotators work while bundles are built: what is read of each is of one moment, and is only read."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from potato_ray.bundle.builder import build
from potato_ray.bundle.reading import digest_of, read_manifest, read_rows
from potato_ray.bundle.report import BuildReport
from potato_ray.bundle.request import BundleRequest
from potato_ray.project.paths import ProjectPaths
from potato_ray.project.schemes import schemes_of

BUILDS = 40 if os.environ.get("POTATO_RAY_LONG") else 12
ITEMS_EACH = 400
STEADY, SAVED, TRUNCATED, GROWN, LEAVING, COMING = (
    "steady",
    "saved",
    "truncated",
    "grown",
    "leaving",
    "coming",
)
ANNOTATORS = (STEADY, SAVED, TRUNCATED, GROWN, LEAVING, COMING)
SPLITS = ("train", "val", "test")


def items_of(annotator: str) -> list[str]:
    return [f"{annotator}-{number:04d}" for number in range(ITEMS_EACH)]


def state(annotator: str, label: str) -> str:
    """What Potato would store for an annotator who gave every item of theirs the same label."""
    stored = {item: [[{"schema": "mood", "name": label}, label]] for item in items_of(annotator)}
    return json.dumps({"user_id": annotator, "instance_id_to_label_to_value": stored}, indent=2)


class Annotations:
    """The files of the annotators, each of which is written in a way of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for annotator in ANNOTATORS:
            if annotator != COMING:
                self.save(annotator, "good")

    def file(self, annotator: str) -> Path:
        return self.folder / annotator / "user_state.json"

    def save(self, annotator: str, label: str) -> None:
        """As Potato does it: aside, then renamed."""
        path = self.file(annotator)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".tmp")
        aside.write_text(state(annotator, label))
        aside.replace(path)

    def change(self, label: str) -> Iterator[None]:
        """One round of changes, with a moment for others between the steps."""
        self.save(SAVED, label)
        yield
        text = state(TRUNCATED, label)
        with self.file(TRUNCATED).open("w") as handle:
            handle.write(text[: len(text) // 2])
            handle.flush()
            yield
            handle.write(text[len(text) // 2 :])
        with self.file(GROWN).open("a") as handle:
            handle.write('{"and": ')
        yield
        self.save(GROWN, label)
        self.file(LEAVING).unlink()
        self.save(COMING, label)
        yield
        self.save(LEAVING, label)
        self.file(COMING).unlink()

    def contents(self) -> dict[str, tuple[bytes, int]]:
        return {
            str(path.relative_to(self.folder)): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


class Annotating:
    """Changes the files all the time, in a thread of its own, for the length of a `with` block."""

    def __init__(self, annotations: Annotations) -> None:
        self._annotations = annotations
        self._stop = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        try:
            for label in itertools.cycle(("bad", "good")):
                for _ in self._annotations.change(label):
                    self._stop.wait(0.001)
                if self._stop.is_set():
                    return
        except BaseException as failure:
            self._failed.append(failure)
            raise

    def __enter__(self) -> Annotating:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join(30)
        assert self._failed == []


@pytest.fixture(name="annotations")
def made_annotations(tmp_path: Path) -> Annotations:
    items = [{"id": item, "text": f"text of {item}"} for each in ANNOTATORS for item in items_of(each)]
    (tmp_path / "items.json").write_text(json.dumps(items))
    return Annotations(tmp_path / "annotation_output")


@pytest.fixture
def build_one(tmp_path: Path, annotations: Annotations) -> Callable[[], BuildReport]:
    paths = ProjectPaths(tmp_path, (tmp_path / "items.json",), annotations.folder)
    mood = schemes_of([{"annotation_type": "radio", "name": "mood", "labels": ["good", "bad"]}])
    request = BundleRequest(paths, tuple(mood), ("mood",))
    return lambda: build(request, tmp_path / "run" / "bundle")


def labels_in(bundle: Path) -> dict[str, list[str]]:
    """The labels of each annotator's items, one an item."""
    found: dict[str, list[str]] = {annotator: [] for annotator in ANNOTATORS}
    for split in SPLITS:
        for row in read_rows(bundle, split):
            found[row["instance_id"].partition("-")[0]].append(row["targets"]["mood"])
    return found


def left_out(report: BuildReport) -> set[str]:
    """The annotators whose file a warning calls unreadable."""
    told = [each for each in report.warnings if "could not be read and was left out" in each]
    return {annotator for annotator in ANNOTATORS if any(f"annotator '{annotator}'" in each for each in told)}


def assert_of_one_moment(bundle: Path, report: BuildReport) -> None:
    labels: dict[str, Any] = labels_in(bundle)
    assert labels[STEADY] == ["good"] * ITEMS_EACH
    assert len(labels[SAVED]) == ITEMS_EACH
    for annotator, given in labels.items():
        assert len(set(given)) <= 1, f"{annotator} is a mixture of two moments"
        assert len(given) in (0, ITEMS_EACH), f"{annotator} is there in part"
    absent = {annotator for annotator, given in labels.items() if not given}
    assert absent - {LEAVING, COMING} == left_out(report) - {LEAVING, COMING}
    assert left_out(report) <= {TRUNCATED, GROWN, LEAVING, COMING}


def test_a_bundle_holds_each_annotator_as_of_one_moment_or_says_who_is_missing(
    tmp_path: Path, annotations: Annotations, build_one: Callable[[], BuildReport]
) -> None:
    bundle = tmp_path / "run" / "bundle"
    seen: set[str] = set()
    with Annotating(annotations):
        for _ in range(BUILDS):
            report = build_one()
            assert_of_one_moment(bundle, report)
            assert read_manifest(bundle)["digest"] == digest_of(bundle) == report.manifest["digest"]
            seen.add(report.manifest["digest"])
    assert len(seen) > 1, "nothing changed while bundles were built"


def test_a_build_changes_no_annotation(
    annotations: Annotations, build_one: Callable[[], BuildReport]
) -> None:
    for _ in annotations.change("bad"):
        pass
    before = annotations.contents()
    assert left_out(build_one()) == set()
    assert annotations.contents() == before
