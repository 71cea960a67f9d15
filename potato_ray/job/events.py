"""events.jsonl: what a worker says, one JSON object a line.

Every event is {"v": 1, "event": name, "t": epoch seconds UTC, ...}:

    status    phase, step
    progress  current, total, eta_s (or null)
    metric    name, value, step (or null)
    log       level (info, warning), message
    artifact  path (relative to artifacts/), bytes
    result    metrics, label_order, notes, predictions_file, n_predictions, model_version
    error     code, message, next_step

The phases that the worker itself names are PHASES, in this order; a trainer may name others while it
fits. The number of a line, counted from 0, is the event's sequence number.
"""

from __future__ import annotations

VERSION = 1

NAMES = ("status", "progress", "metric", "log", "artifact", "result", "error")

PHASES = ("starting", "loading", "fitting", "predicting", "saving")

EXIT_FINISHED = 0
EXIT_UNEXPECTED = 1
EXIT_BAD_SPEC = 2
EXIT_MISSING_DEPENDENCY = 3
EXIT_CANCELLED = 4
EXIT_OUT_OF_MEMORY = 5
EXIT_DISK_FULL = 6
