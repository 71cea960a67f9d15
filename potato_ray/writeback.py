"""Write-back: which predictions become pre-labels, and the report that says why the others did not.

`decide` is the whole rule, in its order; the registry fetches what it asks for and carries it out a
thousand predictions at a time, so that neither annotators nor other runs wait for a large one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol

from potato_ray.project.schemes import left_empty
from potato_ray.registry.prelabels import Candidate, Decide, Decision, Pair
from potato_ray.registry.runs import Run
from potato_ray.registry.store import Registry


class WritebackSection(Protocol):
    """What the configuration's `writeback` section has."""

    @property
    def schemas(self) -> Sequence[str]: ...
    @property
    def min_confidence(self) -> float: ...
    @property
    def field(self) -> str: ...
    @property
    def gate(self) -> str: ...


@dataclass(frozen=True)
class WritebackSettings:
    """`model_training.writeback`: the schemes that are published, and the least confidence (0..1).

    `field` is the item's field that holds the pre-labels. `gate` says what to do with a model that is
    not known to beat the majority baseline: off (publish), warn (publish and say so), block (only store).
    `unseen` are the schemes that Potato's pages leave empty.
    """

    schemas: Sequence[str] = ()
    min_confidence: float = 0.0
    field: str = "predictions"
    gate: str = "warn"
    unseen: Sequence[str] = ()

    @classmethod
    def from_config(
        cls, section: WritebackSection, annotation_schemes: Iterable[Mapping[str, Any]] = ()
    ) -> WritebackSettings:
        """The settings in the configuration's `writeback` section, with the project's schemes."""
        unseen = tuple(str(each.get("name", "")) for each in annotation_schemes if left_empty(each))
        return cls(tuple(section.schemas), section.min_confidence, section.field, section.gate, unseen)


@dataclass(frozen=True)
class WritebackReport:
    """What became of every prediction; the numbers after `n_written` say why the others are not shown.

    `n_superseded_cleared` counts older pre-labels that went because the newer prediction is not
    shown, `n_trained_on_cleared` those that went because this run trains on their item.
    `n_skipped_missing_item` is 0: runs predict on present items alone. Potato's report has the key.
    `withdrawn_at` (epoch seconds UTC) is when somebody withdrew them all; the numbers stay.
    """

    run_id: str | None = None
    n_read: int = 0
    n_written: int = 0
    n_skipped_train_split: int = 0
    n_skipped_schema_not_enabled: int = 0
    n_skipped_rejected: int = 0
    n_skipped_low_confidence: int = 0
    n_skipped_empty: int = 0
    n_skipped_missing_item: int = 0
    n_skipped_superseded: int = 0
    n_skipped_gate: int = 0
    n_superseded_cleared: int = 0
    n_trained_on_cleared: int = 0
    schemas_enabled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    summary: str = ""
    withdrawn_at: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> WritebackReport:
        """The report in a run's `writeback`; keys of another version are passed over."""
        known = {each.name for each in fields(cls)}
        values = {key: value for key, value in body.items() if key in known}
        for name in ("schemas_enabled", "warnings"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)


SURE_FROM_ITEMS = 30
_VALUE_KEYS = ("labels", "value", "text", "spans", "objects", "order")


def shown_payload(payload: Mapping[str, Any], confidence: float | None) -> Any:
    """A prediction as annotation pages, Potato's included, fill it in; None when it is empty.

    One label is {"label", "confidence"}. All else is the bare answer (a list of labels, a number, a
    text, a list of spans, objects or options), because Potato would put an object into a text box or a
    slider as it reads.
    """
    if "label" in payload:
        label = payload["label"]
        return None if _is_empty(label) else {"label": label, "confidence": confidence}
    value = next((payload[key] for key in _VALUE_KEYS if key in payload), None)
    if _is_empty(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or value == []


def decide(candidate: Candidate, settings: WritebackSettings, blocked: bool = False) -> Decision:
    """Whether a prediction is shown; the first check that fails names the reason.

    A `blocked` model's predictions are judged like all others and leave what is on the items alone.
    """
    reason = _reason(candidate, settings)
    shown = None if reason else shown_payload(candidate.payload, candidate.confidence)
    if not reason and shown is None:
        reason = "skipped_empty"
    if not reason and candidate.superseded:
        reason = "skipped_superseded"
    if not reason and blocked:
        reason = "skipped_gate"
    return Decision(reason, keep=blocked) if reason else Decision("written", shown)


def _reason(candidate: Candidate, settings: WritebackSettings) -> str:
    if candidate.trained_on:
        return "skipped_train_split"
    if candidate.schema_name not in settings.schemas:
        return "skipped_schema_not_enabled"
    if candidate.rejected:
        return "skipped_rejected"
    # A prediction without a confidence is as good as one of 0: only a threshold of 0 lets it through.
    if (candidate.confidence or 0.0) < settings.min_confidence:
        return "skipped_low_confidence"
    return ""


def beats_baseline(headline: Mapping[str, Any] | None) -> bool | None:
    """Whether a headline score is better than its baseline; None when either is unknown.

    None too for a score without an interval on fewer than SURE_FROM_ITEMS: nothing tells how far chance
    has made it. A faultless score has no interval on any number of items, and on many it says enough.
    """
    if not headline or headline.get("value") is None or headline.get("baseline") is None:
        return None
    if headline.get("interval_note") and int(headline.get("n_items") or 0) < SURE_FROM_ITEMS:
        return None
    gain = float(headline["value"]) - float(headline["baseline"])
    return (gain < 0) if headline.get("lower_is_better") else (gain > 0)


class Publication:
    """Writes one run's predictions back, a chunk at a time.

    `step` until it returns True, then `report`. A publication that was cut off goes on where it
    stopped, with the same numbers at its end; one that is complete does nothing again.
    """

    def __init__(
        self,
        registry: Registry,
        run_id: str,
        attempt: int,
        settings: WritebackSettings,
        headline: Mapping[str, Any] | None = None,
    ) -> None:
        self._registry, self._run_id, self._attempt = registry, run_id, attempt
        self._settings = settings
        self._run = registry.update(run_id, attempt, beats_baseline=beats_baseline(headline))
        self._blocks = settings.gate == "block"
        blocked = self._blocks and not self._run.beats_baseline
        self._decide: Decide = lambda candidate: decide(candidate, settings, blocked)
        self._report: WritebackReport | None = None
        if self._run.writeback is not None:
            self._report = WritebackReport.from_json(self._run.writeback)

    def step(self) -> bool:
        """One transaction; True when all is written. Raises NotFound, Conflict."""
        if self._report is not None:
            return True
        progress = self._registry.publish_step(self._run_id, self._attempt, self._decide, self._blocks)
        if progress.done:
            report = _report(progress.counts, self._settings, self._run)
            report = replace(
                report, n_superseded_cleared=progress.cleared, n_trained_on_cleared=progress.untrained
            )
            self._registry.update(self._run_id, self._attempt, writeback=report.as_json())
            self._report = report
        return progress.done

    def report(self) -> WritebackReport:
        """The finished report; raises RuntimeError before the last step."""
        if self._report is None:
            raise RuntimeError("the publication is not complete")
        return self._report


_REASONS = (
    ("skipped_train_split", "on items that a model was trained on"),
    ("skipped_schema_not_enabled", "of schemes that write-back is not enabled for"),
    ("skipped_rejected", "rejected by a reviewer"),
    ("skipped_low_confidence", "below min_confidence {minimum:g}"),
    ("skipped_empty", "empty"),
    ("skipped_superseded", "replaced by a newer run"),
    ("skipped_gate", "held back by model_training.writeback.gate"),
)

_NONE = "No predictions were published: "
_WEAK = "the model does not beat the majority baseline on held-out items"
_UNSCORED = (
    "the model has no held-out score with an interval, so nothing says whether it beats the majority baseline"
)


def _report(counts: Mapping[str, int], settings: WritebackSettings, run: Run | None) -> WritebackReport:
    """The report for these counts by outcome; `run` is None for a replay."""
    return WritebackReport(
        run_id=run.run_id if run else None,
        n_read=sum(counts.values()),
        schemas_enabled=tuple(settings.schemas),
        warnings=_warnings(settings, run, counts.get("written", 0)),
        summary=_summary(counts, settings, run),
        **{f"n_{outcome}": number for outcome, number in counts.items()},
    )


def _warnings(settings: WritebackSettings, run: Run | None, written: int) -> tuple[str, ...]:
    if run is None:
        return ()
    return (*_weak(settings, run), *(_unseen(run) if written and _is_unseen(settings, run) else ()))


def _is_unseen(settings: WritebackSettings, run: Run | None) -> bool:
    """Whether nobody sees what the run publishes; its predictions are of the first scheme named."""
    return run is not None and run.scheme in settings.unseen


def _unseen(run: Run) -> tuple[str, ...]:
    return (
        f"Annotators see no pre-label of {run.scheme!r}: Potato's pages leave a scheme of its type empty.",
    )


def _weak(settings: WritebackSettings, run: Run) -> tuple[str, ...]:
    if settings.gate == "off" or not settings.schemas or run.beats_baseline:
        return ()
    held = (
        "its predictions are stored and not shown"
        if settings.gate == "block"
        else "that alone holds no prediction back (model_training.writeback.gate is warn; block would)"
    )
    why = _shortcoming(run)
    return (f"{why[0].upper()}{why[1:]}; {held}.",)


def _shortcoming(run: Run) -> str:
    """What the gate holds against the model of `run`."""
    return _UNSCORED if run.beats_baseline is None else _WEAK


def _summary(counts: Mapping[str, int], settings: WritebackSettings, run: Run | None) -> str:
    total, written = sum(counts.values()), counts.get("written", 0)
    if not written and not settings.schemas:
        return f"{_NONE}write-back is not enabled for any schema (model_training.writeback.schemas is empty)"
    if not total:
        return f"{_NONE}there are none"
    if run is not None and set(counts) == {"skipped_schema_not_enabled"}:
        return f"{_NONE}write-back is not enabled for {run.scheme!r} (model_training.writeback.schemas)"
    if run is not None and set(counts) == {"skipped_gate"}:
        return f"{_NONE}{_shortcoming(run)} (model_training.writeback.gate is block)"
    reasons = ", ".join(
        f"{counts[outcome]} {words.format(minimum=settings.min_confidence)}"
        for outcome, words in _REASONS
        if counts.get(outcome)
    )
    if not written:
        return _NONE + reasons
    unseen = ", which Potato's pages leave empty" if _is_unseen(settings, run) else ""
    return f"Published {written} of {total} predictions{unseen}" + (f"; {reasons}" if reasons else "")


def withdraw(registry: Registry, run_id: str) -> int:
    """Take a run's pre-labels off and forget its predictions; returns how many pre-labels went.

    What they had replaced does not come back. Raises NotFound, Conflict while the run goes on.
    """
    withdrawal = Withdrawal(registry, run_id)
    while not withdrawal.step():
        pass
    return withdrawal.removed


class Withdrawal:
    """Takes a run's pre-labels off and forgets its predictions; noted at once, then a chunk at a time.

    `step` until it returns True. One that is cut off is completed by the next Replay.
    """

    def __init__(self, registry: Registry, run_id: str) -> None:
        self._registry, self._run_id = registry, run_id
        self.removed = 0
        registry.note_withdrawal(run_id)

    def step(self) -> bool:
        """One transaction; True when nothing is left."""
        removed = self._registry.withdraw_step(self._run_id)
        self.removed += removed or 0
        return removed is None


class Replay:
    """Writes all stored predictions back under the same checks, at the start of a server.

    `step` until it returns True, then `report`. What is right already is not written again.
    """

    def __init__(self, registry: Registry, settings: WritebackSettings) -> None:
        self._registry, self._settings = registry, settings
        self._decide: Decide = lambda candidate: decide(candidate, settings)
        self._counts: dict[str, int] = {}
        self._cleared = 0
        self._after: Pair | None = None

    def step(self) -> bool:
        """One chunk; True when all is written."""
        if self._after is None:
            if self._registry.resume_withdrawal():
                return False
            if orphans := self._registry.take_off_orphans():
                self._cleared += orphans
                return False
            self._after = ("", "")
        chunk = self._registry.replay_step(self._after, self._decide, self._settings.gate == "block")
        for outcome, number in chunk.counts.items():
            self._counts[outcome] = self._counts.get(outcome, 0) + number
        self._cleared += chunk.cleared
        if chunk.last is not None:
            self._after = chunk.last
        return chunk.last is None

    def report(self) -> WritebackReport:
        """What is shown now, of the newest stored prediction of each pair."""
        return replace(_report(self._counts, self._settings, None), n_superseded_cleared=self._cleared)
