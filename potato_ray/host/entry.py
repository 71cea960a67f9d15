"""The program that ssh starts on a host: it says what is there, and brings our code.

    ◀─ the program itself, then a request, {"do", "remote_dir", …}, in a line
    probe:  ─▶ {"facts": …}
    others: ─▶ {"facts": …} [◀─ {"archive_bytes": N} and the archive] ─▶ {"code": "copied" or "found"}
            ─▶ what actions does, with the code that is there now

With talk, remote_dir, facts and code_arrival it is self-contained, for nothing of ours lies on the host yet.
A Python that is not there or too old is told of by the command (shipping.host_program).
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Mapping

from potato_ray.host.code_arrival import bring_code, code_folder, is_whole
from potato_ray.host.facts import facts
from potato_ray.host.remote_dir import check_free, unusable
from potato_ray.host.talk import Failed, read_line, say


def main() -> int:
    """Do what the line on stdin asks for; the exit code."""
    request: dict[str, Any] = {"remote_dir": "."}

    def work() -> int:
        request.update(read_line())
        return _do(request)

    return answering(request, work)


def answering(request: Mapping[str, Any], work: Callable[[], int]) -> int:
    """The exit code of `work`, or 1; whatever goes wrong is said in an {"error": …}."""
    try:
        return work()
    except Failed as failed:
        body = failed.body
    except BrokenPipeError:
        return 1  # nobody listens any more
    except OSError as failure:
        body = unusable(request, failure).body
    except Exception as failure:  # noqa: BLE001 - whatever it is, it is told
        body = Failed("host_failed", f"{type(failure).__name__}: {failure}").body
    try:
        say({"error": body})
    except OSError:
        pass
    return 1


def _do(request: dict[str, Any]) -> int:
    if request["do"] == "probe":
        say({"facts": facts(request, is_whole(code_folder(request)))})
        return 0

    told = facts(request, False)
    check_free(request, told["free_disk_mb"])
    root = bring_code(request, lambda has_code: say({"facts": {**told, "has_code": has_code}}))
    # From here on it is that code which works; what the command itself brought has done its part.
    sys.path.insert(0, str(root))
    from potato_ray.host.actions import perform

    return perform(request, root)
