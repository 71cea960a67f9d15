"""Mirrors as the controller leaves them when an agent has claimed a run, for tests of what agents send."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from potato_ray.job.folder import read_json, write_json
from potato_ray.mirror.folder import ClaimNote, MirrorFolder
from potato_ray.shipping.bundle_archive import pack_bundle
from potato_ray.shipping.code_archive import code_archive

LEASE = "0123456789abcdef" * 2
AGENT = {"id": "5f2a90c1d3e4b677", "host": "ws1", "python": "3.8.18", "version": "0.1.0", "gpus": []}
RESULT_EVENT = {"v": 1, "event": "result", "t": 1772357404.0, "n_predictions": 1, "metrics": {}}
EXIT = {"code": 0, "signal": None, "reason": "", "peak_rss_mb": 99.5, "started_at": 1.0, "ended_at": 2.0}


def digest(text: str) -> str:
    """What is kept of a secret."""
    return sha256(text.encode()).hexdigest()


def claimed(folder: Path, attempt: int = 1, lease: str = LEASE, agent: dict[str, Any] | None = None) -> None:
    """The folder of a run that an agent has in hand."""
    folder.mkdir(parents=True, exist_ok=True)
    MirrorFolder(folder).write_claim(ClaimNote(attempt, digest(lease), agent or AGENT, 1772357400.0))


def handed_over(folder: Path, state_dir: Path, run_id: str, backend: str, attempt: int = 1) -> dict[str, Any]:
    """The folder of a run whose job can be fetched, with its own bundle and spec or made-up ones; the job."""
    mirror = MirrorFolder(folder)
    if not mirror.bundle.exists():
        mirror.bundle.mkdir(parents=True)
        (mirror.bundle / "manifest.json").write_text("{}", "utf-8")
        (mirror.bundle / "train.jsonl").write_text('{"instance_id": "a"}\n' * 5000, "utf-8")
    bundle = pack_bundle(mirror.bundle, mirror.bundle_archive)
    code = code_archive(state_dir)
    job = {
        "v": 1,
        "run_id": run_id,
        "attempt": attempt,
        "backend": backend,
        "spec": read_json(mirror.spec) or {"v": 1, "run_id": run_id, "attempt": attempt},
        "bundle": {"sha256": bundle.sha256, "bytes": bundle.n_bytes},
        "code": {"sha256": code.sha256, "bytes": code.n_bytes},
        "grace_seconds": 20.0,
        "lost_after_s": 300.0,
        "progress_every_s": 1.0,
        "max_predictions_mb": 512.0,
    }
    write_json(mirror.job, job)
    return job
