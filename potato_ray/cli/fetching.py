"""`potato-ray training fetch`: from the host of a run, with or without a server."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.cli.output import out, print_json, say
from potato_ray.cli.runs import find_run
from potato_ray.config import load
from potato_ray.errors import Conflict, NotFound
from potato_ray.registry.states import State

if TYPE_CHECKING:
    from potato_ray.backends.host_files import HostFile, HostFiles
    from potato_ray.backends.left_on_host import LeftOnHost

TELL_EVERY_S = 0.5
MB = 1 << 20


def run_fetch(
    name: str, paths: Sequence[str], config: Path, *, only_list: bool, remove: bool, as_json: bool
) -> int:
    """Fetch files of a run, all that are not here or those of `paths`; see docs/cli.md."""
    from potato_ray.backends.host_files import HostFiles
    from potato_ray.backends.left_on_host import left_on_host

    loaded = load(config)
    run = find_run(loaded, name, status=State.SUCCESS)
    left = left_on_host(loaded, run, loaded.training_dir / "runs" / run.run_id)
    with HostFiles(left) as files:
        listed = files.listing()
        if not only_list:
            listed = _fetched(files, left, listed, _chosen(left, listed, paths))
        if remove:
            _require_all(left, listed, only_list=only_list)
            files.remove()
    if as_json:
        print_json(_body(left, listed, removed=remove))
    else:
        _print(left, listed, removed=remove)
    return 0


def _chosen(left: LeftOnHost, listed: Sequence[HostFile], paths: Sequence[str]) -> set[str]:
    """The paths to fetch: of all files, of files by their path, or of all in a folder."""
    if not paths:
        return {each.path for each in listed}
    chosen: set[str] = set()
    for path in paths:
        below = path.rstrip("/") + "/"
        found = {each.path for each in listed if each.path == path or each.path.startswith(below)}
        if not found:
            raise NotFound(
                f"Run {left.run_id} has no file {path} on {left.host}.",
                code="unknown_artifact",
                next_step=f"List what is there: potato-ray training fetch {left.run_id} --list",
            )
        chosen |= found
    return chosen


def _fetched(
    files: HostFiles, left: LeftOnHost, listed: Sequence[HostFile], chosen: set[str]
) -> list[HostFile]:
    """The list, after the chosen files have come."""
    from potato_ray.backends.fetch_tries import fetch_at_last

    now = []
    for each in listed:
        if each.path in chosen and not each.is_here:
            say(f"fetching {each.path}, {each.n_bytes / MB:.1f} MB, from {left.host}")
            fetch_at_last(files, each.path, _Meter())
            now.append(replace(each, is_here=True))
        else:
            now.append(each)
    return now


class _Meter:
    """How far a file is, in one line of a terminal that is written anew."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()
        self._is_shown = sys.stderr.isatty()

    def __call__(self, here: int, of_bytes: int) -> None:
        now = time.monotonic()
        if not self._is_shown or (now - self._told_at < TELL_EVERY_S and here < of_bytes):
            return
        self._told_at = now
        percent = 100 * here // of_bytes if of_bytes else 100
        end = "\n" if here == of_bytes else ""
        sys.stderr.write(f"\r  {here / MB:.1f} of {of_bytes / MB:.1f} MB, {percent} %{end}")
        sys.stderr.flush()


def _require_all(left: LeftOnHost, listed: Sequence[HostFile], *, only_list: bool) -> None:
    missing = [each.path for each in listed if not each.is_here]
    if missing:
        raise Conflict(
            f"{len(missing)} files of run {left.run_id} are on {left.host} alone; nothing was removed.",
            code="files_not_here",
            evidence=f"They are {', '.join(missing[:5])}{' and more' if len(missing) > 5 else ''}.",
            next_step="Fetch all, without a path" + (" and without --list." if only_list else "."),
        )


def _body(left: LeftOnHost, listed: Sequence[HostFile], *, removed: bool) -> dict[str, object]:
    files = [{"path": each.path, "bytes": each.n_bytes, "here": each.is_here} for each in listed]
    return {
        "run_id": left.run_id,
        "host": left.host,
        "folder": left.artifacts,
        "files": files,
        "removed": removed,
    }


def _print(left: LeftOnHost, listed: Sequence[HostFile], *, removed: bool) -> None:
    for each in listed:
        out(f"{each.n_bytes / MB:10.1f} MB  {'here' if each.is_here else 'there':5}  {each.path}")
    if removed:
        out(f"removed from {left.host}")
    elif not listed:
        out(f"no file is left on {left.host}")
