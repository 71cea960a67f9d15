"""What an agent asks of its server, over one connection that all its threads share."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path
from typing import Any, Callable, Mapping

from potato_ray.agent.code_store import CodeInUse, CodeStore
from potato_ray.agent.connection import ServerConnection
from potato_ray.agent.contact import Contact, Told
from potato_ray.agent.download import Source, download
from potato_ray.agent.held_job import HeldJob, remove
from potato_ray.agent.machine import describe
from potato_ray.agent.packages import Packages
from potato_ray.agent.patience import Patience
from potato_ray.agent.protocol import code_path, job_path
from potato_ray.agent.settings import Settings, Timing
from potato_ray.agent.unpack import unpack
from potato_ray.agent.workdir import Workdir

PATIENT_TIMES = 2.0
"""Of lost_after_s: whether a job is lost is decided elsewhere, a download need not."""


def contacts(
    connection: ServerConnection, workdir: Workdir, settings: Settings, python_version: str
) -> Callable[[], Contact]:
    """Makes contacts that share a connection; `python_version` is that of the workers' interpreter."""
    agent_id, packages = secrets.token_hex(8), Packages(settings.python)

    def facts() -> Mapping[str, Any]:
        return describe(agent_id, python_version, workdir.path, packages)

    return lambda: ServerContact(
        connection, CodeStore(workdir.code), facts, settings.timing, settings.backend
    )


class ServerContact:
    """A Contact; `let_go` ends what it waits for."""

    def __init__(
        self,
        connection: ServerConnection,
        code_store: CodeStore,
        facts: Callable[[], Mapping[str, Any]],
        timing: Timing,
        backend: str,
    ) -> None:
        self._connection = connection
        self._code_store = code_store
        self._facts = facts
        self._timing = timing
        self._backend = backend
        self._stop = threading.Event()

    def let_go(self) -> None:
        self._stop.set()

    def claim(self, lease: str, wait_s: float) -> Any:
        return self._connection.claim(lease, wait_s, self._facts(), self._stop, self._backend)

    def code(self, held: HeldJob) -> CodeInUse:
        parcel = held.job.code
        source = Source(code_path(parcel.sha256), parcel.sha256, parcel.n_bytes, "code of the job")
        return self._code_store.use(
            parcel.sha256, lambda archive: self._download(source, archive, held, None), self._stop
        )

    def bundle(self, held: HeldJob, told: Told) -> None:
        parcel = held.job.bundle
        source = Source(job_path(held.run_id, "bundle"), parcel.sha256, parcel.n_bytes, "bundle")
        self._download(source, held.archive, held, told)
        unpack(held.archive, held.folder.bundle, stop=self._stop)
        remove(held.archive)

    def _download(self, source: Source, target: Path, held: HeldJob, told: Told | None) -> None:
        timing = self._timing
        patience = Patience(self._stop, first_s=timing.first_retry_s, longest_s=timing.longest_retry_s)
        download(
            self._connection,
            source,
            target,
            patience=patience,
            stop=self._stop,
            job=held,
            on_bytes=told,
            give_up_after_s=PATIENT_TIMES * held.job.lost_after_s,
        )

    def progress(self, held: HeldJob, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._connection.progress(
            held, body["first_seq"], body["events"], body["notes"], body["alive"]
        )

    def predictions(self, held: HeldJob, path: Path, told: Told) -> None:
        self._connection.put_predictions(held, path, on_sent=told, stop=self._stop)

    def result(self, held: HeldJob, body: Mapping[str, Any]) -> None:
        self._connection.result(held, body)
