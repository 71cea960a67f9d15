"""How many round trips a run over ssh takes from the login to its worker's start.

    python tests/bench/ssh_round_trips.py [--rtt-ms 50] [--runs 7]

The same jobs on loopback and over a link with that round-trip time; the difference of the medians counts
them. A small bundle, our code on the host already. Needs root, for network namespaces.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1] / "testbeds"))

from ssh_place import SshSite, ssh_site

from potato_ray.backends import host_connection
from potato_ray.backends.base import Directive
from potato_ray.ssh import Connection


def goes_on(
    events: Sequence[Mapping[str, Any]], first_seq: int, notes: Sequence[Mapping[str, Any]] = ()
) -> Directive:
    return Directive()


def one(site: SshSite) -> float:
    """Seconds from the login of one job to the start of its worker, by this machine's clock."""
    logged_in_at: list[float] = []

    class Watched(Connection):
        @classmethod
        def open(cls, *given: Any, **more: Any) -> Connection:
            made = Connection.open(*given, **more)
            logged_in_at.append(time.time())
            return made

    job = site.make_job("succeed")
    with mock.patch.object(host_connection, "Connection", Watched):
        outcome = site.backend(keep_remote=True).execute(job, goes_on)
    processes = site.job(job.run_id).read_processes()
    if outcome.status != "success" or processes is None:
        raise SystemExit(f"{outcome.status}: {outcome.message} {outcome.evidence}")
    site.clear_up(job)
    return processes.started_at - logged_in_at[0]


def several(rtt_ms: float, n_runs: int) -> list[float]:
    """The same of some jobs on a host that is so far away, but for the first one, which brings our code."""
    with (
        tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp") as folder,
        ssh_site(Path(folder) / "site", rtt_ms) as site,
    ):
        return [one(site) for _ in range(n_runs + 1)][1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rtt-ms", type=float, default=50.0)
    parser.add_argument("--runs", type=int, default=7)
    told = parser.parse_args()
    medians = {}
    for rtt_ms in (0.0, told.rtt_ms):
        took = several(rtt_ms, told.runs)
        medians[rtt_ms] = statistics.median(took)
        every = ", ".join(f"{each:.2f}" for each in took)
        print(f"{rtt_ms:3.0f} ms: {medians[rtt_ms]:.2f} s from the login to the worker's start ({every})")
    trips = (medians[told.rtt_ms] - medians[0.0]) / (told.rtt_ms / 1000.0)
    print(f"{trips:.1f} round trips")


if __name__ == "__main__":
    main()
