"""The folder on the host that everything of ours lies in.

REMOTE_DIR/code/<sha256>/              our code, shared by all runs (agent.code_store)
REMOTE_DIR/environments/<hash>/        a virtual environment for each list of packages
REMOTE_DIR/runs/<run_id>.<attempt>/    what one run has there (run_folder.py)
"""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any, Mapping

from potato_ray.host.talk import Failed

MB = 1 << 20
FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_EXEC = 8


def place(request: Mapping[str, Any]) -> Path:
    """remote_dir as an absolute path; a relative one is below the home."""
    asked = os.path.expanduser(str(request["remote_dir"]))  # noqa: PTH111 - without a home, it stays as it is
    return Path(os.path.normpath(Path.home() / asked))


def unusable(request: Mapping[str, Any], failure: OSError) -> Failed:
    """What is said of an error of the operating system: the disk, most likely."""
    where, host = place(request), request.get("host") or socket.gethostname()
    words = os.strerror(failure.errno) if failure.errno else str(failure)
    evidence = f"{failure.filename or where}: {words}."
    if failure.errno in FULL:
        message = f"The disk of remote_dir {where} on {host} is full."
        return Failed("disk_full", message, evidence, "Free some space there, or name another remote_dir.")
    message = f"remote_dir {where} on {host} cannot be used."
    return Failed("remote_dir_unusable", message, evidence, "Make it writable, or name another remote_dir.")


def disk_facts(where: Path) -> dict[str, Any]:
    """Free space in MiB, and whether files can be written and run there; a folder may be still to be made."""
    while not where.is_dir():
        where = where.parent
    disk = os.statvfs(str(where))
    writable = os.access(str(where), os.W_OK | os.X_OK)
    why = errno.EROFS if disk.f_flag & os.ST_RDONLY else errno.EACCES
    return {
        "problem": "" if writable else f"{where}: {os.strerror(why)}",
        "noexec": bool(disk.f_flag & _NO_EXEC),
        "free_disk_mb": disk.f_bavail * disk.f_frsize // MB,
    }


def check_free(request: Mapping[str, Any], free_mb: int) -> None:
    """Raises Failed (disk_full) below the request's min_free_disk_mb."""
    least_mb = request.get("min_free_disk_mb") or 0
    if free_mb < least_mb:
        failed = unusable(request, OSError(errno.ENOSPC, ""))
        failed.body["evidence"] = f"{free_mb} MB are free there; {least_mb} are needed."
        raise failed
