"""Files that stay on the host of a run, fetched by the server into the run's own files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from potato_ray.client import calls
from potato_ray.client.answers import json_of
from potato_ray.client.downloads import chosen_paths
from potato_ray.client.effects import Flow, do, pause
from potato_ray.client.failures import ServerError
from potato_ray.client.flows import several
from potato_ray.client.patience import Patience
from potato_ray.client.records import RemoteFile

LOOK_EVERY_S = 1.0
MOST_BEGINNINGS = 3
"""How often one file is begun: a server that was started again has forgotten it, and somebody may stop it."""

Progress = Callable[[RemoteFile], object]


def remote_files(run_id: str, patience: Patience) -> Flow[list[RemoteFile]]:
    """What of a run stays on its host, by path."""
    return (yield from several(RemoteFile, calls.remote_files(run_id), "files", patience))


def fetched(
    run_id: str, wanted: str | Iterable[str] | None, progress: Progress | None, patience: Patience
) -> Flow[list[RemoteFile]]:
    """Have files brought from the host, and wait until they are here; None: all that stay.

    Raises NotFound for a path that does not stay there, and ServerError where a fetch failed.
    """
    listed = yield from remote_files(run_id, patience)
    names = chosen_paths(run_id, [each.path for each in listed], wanted, "remote_files()")
    known = {each.path: each for each in listed if each.path in names}
    begun: Counter[str] = Counter()
    while True:
        fresh = []
        for file in list(known.values()):
            if not (file.is_here or file.is_under_way):
                fresh.append((yield from _begun(run_id, file, begun, patience)))
        yield from _take(known, fresh, progress)
        if all(file.is_here for file in known.values()):
            return [known[name] for name in names]
        yield from pause(LOOK_EVERY_S)
        yield from _take(known, (yield from remote_files(run_id, patience)), progress)


def _take(known: dict[str, RemoteFile], fresh: Iterable[RemoteFile], progress: Progress | None) -> Flow[None]:
    """Note how far the files are now, and tell of those that are further."""
    for file in fresh:
        if file.path in known and file != known[file.path]:
            known[file.path] = file
            if progress is not None:
                yield from do(partial(progress, file))


def _begun(run_id: str, file: RemoteFile, begun: Counter[str], patience: Patience) -> Flow[RemoteFile]:
    has_failed = begun[file.path] > 0 and file.state == "failed"
    if has_failed or begun[file.path] >= MOST_BEGINNINGS:
        raise _failed(run_id, file)
    begun[file.path] += 1
    answer = yield from patience.insist(calls.fetch_remote_file(run_id, file.path))
    return RemoteFile.from_json(json_of(answer))


def removed(run_id: str, patience: Patience) -> Flow[None]:
    """Remove what stays on the host."""
    yield from patience.insist(calls.remove_remote_files(run_id))


def _failed(run_id: str, file: RemoteFile) -> ServerError:
    problem: Mapping[str, object] = file.problem or {}
    return ServerError(
        str(problem.get("error") or f"The file {file.path} of run {run_id} did not come."),
        code=str(problem.get("error_code") or "fetch_stopped"),
        evidence=str(problem.get("evidence") or f"It was begun {MOST_BEGINNINGS} times: {file.path}."),
        next_step=str(problem.get("next_step") or "Fetch it again: it goes on where it was."),
    )
