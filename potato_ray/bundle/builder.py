"""Building a bundle: a project on disk becomes split files, labels, media and a manifest.

Two passes over the data files and one over the annotations: the first pass keeps ids, the second
writes rows, so texts are never held in memory together. Small data files are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from potato_ray.bundle.agreement import agreement_warnings
from potato_ray.bundle.copies import Copies
from potato_ray.bundle.corrections import correction_target
from potato_ray.bundle.held_out_answers import write_held_out_answers
from potato_ray.bundle.labels import label_counts
from potato_ray.bundle.manifest import manifest_of
from potato_ray.bundle.media import FOLDER as MEDIA_FOLDER
from potato_ray.bundle.media import MediaLinks, is_media
from potato_ray.bundle.plan import SplitPlan, plan_splits
from potato_ray.bundle.reading import LABELS, MANIFEST, digest_of
from potato_ray.bundle.report import BuildReport
from potato_ray.bundle.request import BundleRequest
from potato_ray.bundle.trainer_wishes import TrainerWishes
from potato_ray.bundle.writing import SplitFiles, folder_in_place, write_object
from potato_ray.errors import ProjectUnreadable, RunFailed
from potato_ray.project.annotations import AnnotationReading, read_answers
from potato_ray.project.consensus import Resolution, resolve
from potato_ray.project.items import Item, ItemIndex, index_items, named, read_items
from potato_ray.project.polling import EVERY, StopPoll, never
from potato_ray.trainers import kinds

__all__ = ["BuildReport", "BundleRequest", "build"]

Progress = Callable[[str, int, int], None]
"""Called with a step, how many are done, and of how many (0: not known)."""


def build(
    request: BundleRequest,
    folder: Path,
    progress: Progress = lambda step, done, total: None,
    should_stop: Callable[[], bool] = never,
    answers: Path | None = None,
) -> BuildReport:
    """Build the bundle of `request` at `folder`, replacing what is there only when it is complete.

    `should_stop` is asked at least every 1,000 records. `answers`, outside `folder`, is where each
    annotator's answers to the held-out items go; None: nowhere. Raises Cancelled, and RunFailed
    (bundle_failed) for a project that cannot be read, a full disk, or `No resolved annotations to train on`.
    """
    if request.scheme.kind is None:
        raise _failed(f"Schema {request.scheme.name!r} cannot be trained.", request.scheme.why_not)
    try:
        with folder_in_place(folder) as aside:
            return _Build(request, aside, progress, StopPoll(should_stop), should_stop, answers).run()
    except ProjectUnreadable as error:
        raise _failed(error.message, error.evidence, error.next_step) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _failed(
            "The training data could not be written.", f"{reason}.", "Check the disk of the project."
        ) from error


def _failed(message: str, evidence: str, next_step: str = "Choose another scheme.") -> RunFailed:
    return RunFailed(message, code="bundle_failed", evidence=evidence, next_step=next_step)


class _Build:
    """One build, step by step."""

    def __init__(
        self,
        request: BundleRequest,
        folder: Path,
        progress: Progress,
        poll: StopPoll,
        should_stop: Callable[[], bool],
        answers: Path | None,
    ) -> None:
        self.request = request
        self.scheme = request.scheme
        self.folder = folder
        self.progress = progress
        self.poll = poll
        self.should_stop = should_stop
        self.answers = answers
        self.wishes = TrainerWishes.of(request)
        self.warnings = request.warnings()
        self.n_items = 0
        self.seeded: frozenset[str] = frozenset()
        self.corrected: set[str] = set()

    def run(self) -> BuildReport:
        self.poll.now()
        index = index_items(self.request.paths, self.request.group_key, is_media, self._on_item)
        self.n_items = len(index.positions)
        reading = self._read_answers(index)
        self.seeded = reading.seeded
        self.progress("resolving the annotators' answers", 0, 1)
        resolution = self._resolve(reading)
        self.poll.now()
        targets = self._targets(index, resolution)
        if not targets:
            raise self._nothing_to_train_on(index, reading, resolution)
        groups = self._own_groups(index, targets)
        plan = plan_splits(self.request, self._as_read(index), targets, reading.answered, groups)
        modality = self._modality(index)
        media = MediaLinks(self.request.paths, self.folder / MEDIA_FOLDER) if modality == "image" else None
        copies = Copies()
        files = self._write_rows(index, plan, targets, media, copies)
        if self.answers is not None:
            write_held_out_answers(self.answers, reading.table, plan.split_of)
        agreement = agreement_warnings(resolution, len(targets), self.corrected)
        self.warnings += [*index.warnings, *reading.warnings, *agreement]
        self.warnings += [
            *plan.warnings(self.wishes.split_by, self.request.group_key),
            *_media_warnings(media),
            *copies.warnings(self.request.group_key),
        ]
        counts = self._counts(index, reading, resolution, targets, plan, media)
        stats = {**counts, "warnings": list(self.warnings)}
        manifest = manifest_of(self.request, self.wishes, files, stats, modality, digest_of(self.folder))
        write_object(self.folder / LABELS, manifest["labels"])
        write_object(self.folder / MANIFEST, manifest)
        return BuildReport(manifest, tuple(self.warnings), files.items, plan.moved)

    # --- reading ----------------------------------------------------------------------------------

    def _on_item(self, count: int) -> None:
        self.poll()
        if count % EVERY == 0:
            self.progress("reading the items", count, 0)

    def _read_answers(self, index: ItemIndex) -> AnnotationReading:
        return read_answers(
            self.request.paths,
            self.scheme,
            index.positions,
            known_schemes=self.request.project_schemes or None,
            on_annotator=lambda done, total: self.progress("reading the annotations", done, total),
            should_stop=self.should_stop,
        )

    def _resolve(self, reading: AnnotationReading) -> Resolution:
        return resolve(
            self.scheme.kind or "",
            reading.table,
            self.request.aggregation,
            reading.table.labels,
            self.request.split_seed,
            self.poll.now,
        )

    def _targets(self, index: ItemIndex, resolution: Resolution) -> dict[str, Any]:
        """The resolved answers, with a reviewer's corrections in place of the annotators' answers."""
        targets = dict(resolution.targets)
        unusable = []
        for instance_id, value in self.request.corrections.items():
            if instance_id not in index.positions:
                continue
            target = correction_target(self.scheme, value)
            if target is None:
                unusable.append(instance_id)
            else:
                targets[instance_id] = target
                self.corrected.add(instance_id)
        if unusable:
            self.warnings.append(
                f"{len(unusable)} correction(s) of reviewers were left out: {self.scheme.name!r} has no such "
                f"answer now ({named(unusable)})."
            )
        return targets

    def _nothing_to_train_on(
        self, index: ItemIndex, reading: AnnotationReading, resolution: Resolution
    ) -> RunFailed:
        stats, name = reading.stats, self.scheme.name
        others = {key: count for key, count in stats["answers_by_scheme"].items() if key != name}
        found = ", ".join(f"{key!r} ({count})" for key, count in others.items()) or "none"
        n_records = stats["answers_by_scheme"].get(name, 0)
        evidence = [
            f"There are {len(index.positions)} items and {n_records} annotation records for {name!r} by "
            f"{stats['n_annotators']} annotator(s); other schemes with answers: {found}."
        ]
        if resolution.unresolved:
            evidence.append(
                f"On {len(resolution.unresolved)} item(s) the annotators disagree without a majority."
            )
        return _failed(
            "No resolved annotations to train on.",
            " ".join([*evidence, *reading.warnings]),
            f"Annotate items for {name!r}, or choose a scheme that has answers.",
        )

    def _modality(self, index: ItemIndex) -> str:
        """image for pictures to draw on, and where every text is the name of a picture; else text.

        A trainer of texts that reads a field of its own looks at no pictures.
        """
        if self.wishes.fields and not self.wishes.pictures:
            return "text"
        n_texts = len(index.positions) - len(index.empty)
        all_pictures = 0 < n_texts == index.n_media
        return "image" if self.scheme.kind == kinds.GEOMETRY or all_pictures else "text"

    def _own_groups(self, index: ItemIndex, targets: Mapping[str, Any]) -> dict[str, str] | None:
        """The trainer's groups of the labelled items; None where it has no grouping of its own."""
        self.wishes.check_fields(self._items(index))
        if self.wishes.split_by is None:
            return None
        step = f"grouping the items by {self.wishes.split_by}"
        return self.wishes.groups(self._counted(index, step), targets)

    def _as_read(self, index: ItemIndex) -> ItemIndex:
        """The index as the trainer sees it: an item without text is not empty that has a field of its own."""
        items = self._counted(index, "reading the fields of the items")
        return replace(index, empty=self.wishes.empty_of(items, index.empty))

    # --- writing ----------------------------------------------------------------------------------

    def _items(self, index: ItemIndex) -> Iterator[Item]:
        return read_items(self.request.paths) if index.items is None else iter(index.items)

    def _counted(self, index: ItemIndex, step: str) -> Iterator[Item]:
        for count, item in enumerate(self._items(index), start=1):
            self.poll()
            if count % EVERY == 0:
                self.progress(step, count, self.n_items)
            yield item

    def _write_rows(
        self,
        index: ItemIndex,
        plan: SplitPlan,
        targets: Mapping[str, Any],
        media: MediaLinks | None,
        copies: Copies,
    ) -> SplitFiles:
        # A trainer of a field of its own, or of pictures, does not read the texts.
        are_read = media is None and not self.wishes.fields
        with SplitFiles(self.folder) as files:
            for item in self._counted(index, "writing the bundle"):
                split = plan.split_of.get(item.instance_id)
                if split is not None:
                    if are_read:
                        copies.add(split, item.text)
                    files.add(split, item.instance_id, [self._row(item, targets, media)])
            files.sync()
        return files

    def _row(self, item: Item, targets: Mapping[str, Any], media: MediaLinks | None) -> dict[str, Any]:
        row = self.wishes.row(item)
        if media is not None:
            link = media.link(item)
            row |= {"media_missing": True} if link is None else {"media": link}
        if item.instance_id in targets:
            row["targets"] = {self.scheme.name: targets[item.instance_id]}
            if item.instance_id in self.seeded:
                row["seeded"] = True
        return row

    def _counts(
        self,
        index: ItemIndex,
        reading: AnnotationReading,
        resolution: Resolution,
        targets: Mapping[str, Any],
        plan: SplitPlan,
        media: MediaLinks | None,
    ) -> dict[str, Any]:
        annotated = reading.answered | targets.keys()
        return {
            "n_items": len(index.positions),
            "n_annotated": len(annotated),
            "n_skipped_no_label": len(annotated - targets.keys()),
            "n_disagreement": resolution.n_disagreement,
            "n_ties": resolution.n_ties,
            "n_empty_text": len(index.empty),
            "n_empty_text_left_out": plan.n_empty_left_out,
            "n_cleaned_text": index.n_cleaned,
            "n_media_linked": media.n_linked if media else 0,
            "n_media_missing": media.n_missing if media else 0,
            "forced_train": plan.forced_counts(),
            "n_regrouped": plan.n_regrouped,
            **reading.stats,
            "label_counts": label_counts(self.scheme, targets.values()),
        }


def _media_warnings(media: MediaLinks | None) -> list[str]:
    if media is None or not media.n_missing:
        return []
    return [
        f"{media.n_missing} picture(s) were not found in the media directory, the project's folder or beside "
        "the data. Set media_directory, or correct the file names."
    ]
