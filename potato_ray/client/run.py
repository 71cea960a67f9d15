"""A run on a server, and its predictions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from potato_ray.client import calls, flows
from potato_ray.client.blocking import Blocking
from potato_ray.client.downloads import download
from potato_ray.client.fetching import fetched, remote_files, removed
from potato_ray.client.following import Following, refresh
from potato_ray.client.patience import Patience
from potato_ray.client.progress import Progress, watching
from potato_ray.client.records import Artifact, Event, Prediction, RemoteFile, RunRecord
from potato_ray.client.view import RunView, require_pandas, table_of


class Run(RunView):
    """A run on a server; `Client.train`, `Client.run` and `Client.runs` make them."""

    def __init__(self, driver: Blocking, patience: Patience, record: RunRecord) -> None:
        super().__init__(record)
        self._driver = driver
        self._patience = patience

    def refresh(self) -> Run:
        """Ask how it stands now; the run itself."""
        self._record = self._driver.run(refresh(self.id, self._patience))
        return self

    def wait(
        self, timeout_s: float | None = None, *, progress: Progress = True, raise_on_failure: bool = True
    ) -> Run:
        """Wait until the run has ended; the run itself.

        Raises RunFailed with the run's error code, Cancelled, and WaitTimedOut when it has not ended
        within `timeout_s`. With `raise_on_failure=False` it answers however the run ended.
        """
        with watching(progress) as watch:

            def seen(record: RunRecord) -> None:
                self._record = record
                watch(record)

            self._driver.run(Following(self.id, self._patience, timeout_s, seen).to_end())
        if raise_on_failure:
            flows.raise_failure(self._record)
        return self

    def events(self, after: int = 0, *, follow: bool = False) -> Iterator[Event]:
        """What the run said, in order, those behind event `after`; with `follow` until it has ended."""
        return self._driver.iterate(flows.events(self.id, after, follow, self._patience))

    def log(self) -> str:
        """The log, one line an event, times in UTC."""
        return self._driver.run(flows.text(calls.log(self.id), self._patience))

    def predictions(self) -> Predictions:
        """The predictions that are stored, read while they come in."""
        return Predictions(self.id, self._driver, self._patience)

    def artifacts(self) -> list[Artifact]:
        """The files that it left."""
        return self._driver.run(
            flows.several(Artifact, calls.artifacts(self.id), "artifacts", self._patience)
        )

    def download(
        self, what: str | Iterable[str] | None = None, folder: str | os.PathLike[str] = "."
    ) -> list[Path]:
        """Fetch files into `folder`: one by its path, a folder of them, several, or None for all.

        A file appears when it is complete, and replaces one of the same name. Answers the paths.
        """
        return self._driver.run(download(self.id, what, folder, self._patience))

    def remote_files(self) -> list[RemoteFile]:
        """What of it stays on the host that it ran on, and how far each file is.

        Raises Conflict (no_remote_files) where nothing does, and ServerError where the host does not answer.
        """
        return self._driver.run(remote_files(self.id, self._patience))

    def fetch(
        self,
        what: str | Iterable[str] | None = None,
        *,
        progress: Callable[[RemoteFile], object] | None = None,
    ) -> list[RemoteFile]:
        """Have the server bring files from the host, and wait until they are among the artifacts.

        `what` is a path, a folder, several, or None for all that stay; `progress` is called with each change.
        Raises as `remote_files` does, NotFound, and ServerError where a file could not be brought.
        """
        return self._driver.run(fetched(self.id, what, progress, self._patience))

    def remove_remote_files(self) -> None:
        """Remove from the host what stays there, fetched or not. Raises as `remote_files` does."""
        self._driver.run(removed(self.id, self._patience))

    def cancel(self) -> Run:
        """Ask to cancel it. A waiting run ends at once; wait for the end of one that is under way.

        What it is then is what the answer tells, so `refresh` for the rest. Raises Conflict
        (already_ended) when there is nothing left to cancel.
        """
        self._record = self._driver.run(flows.cancelled(self._record, self._patience))
        return self

    def withdraw_predictions(self) -> int:
        """Take its pre-labels off the items; how many there were."""
        return self._driver.run(flows.withdrawn(self.id, self._patience))


class Predictions:
    """The stored predictions of a run. Each iteration asks for them anew."""

    def __init__(self, run_id: str, driver: Blocking, patience: Patience) -> None:
        self._run_id = run_id
        self._driver = driver
        self._patience = patience

    def __iter__(self) -> Iterator[Prediction]:
        return self._driver.iterate(flows.predictions(self._run_id, self._patience))

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a row for each; raises ClientError where pandas is not installed."""
        require_pandas()
        return table_of(self)
