"""What a run over ssh costs besides the same run on this machine, both without a spare worker.

    python tests/bench/ssh_run_cost.py [--pairs 5]

A real sshd on loopback, one controller, pairs of runs in turn: local, ssh. Our code is on the host already.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

for folder in ("testbeds", "end_to_end"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

from sshd import ALIAS, Sshd  # noqa: E402
from whole_runs import ended, projects  # noqa: E402

from potato_ray.actors.session import Session  # noqa: E402
from potato_ray.cli.agents_here import answering_agents  # noqa: E402
from potato_ray.config import ProjectConfig  # noqa: E402
from potato_ray.starting import StartRequest  # noqa: E402


def one(session: Session, config: ProjectConfig, backend: str) -> float:
    """Seconds from the request to the end of one run."""
    began = time.perf_counter()
    request = StartRequest(trainer="sklearn-text", schemas=("sentiment",), params={}, backend=backend)
    run = ended(config, str(session.call("start", request)["run_id"]))
    took_s = time.perf_counter() - began
    if run.error:
        raise SystemExit(f"{backend}: {run.error} {run.error_evidence}")
    before_s = (run.started_at or 0.0) - run.created_at
    print(f"{backend:6} {took_s:6.2f} s, {before_s:5.2f} s of them before the worker started")
    return took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    told = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp") as folder,
        Sshd() as sshd,
        projects() as make_project,
    ):
        os.environ["PATH"] = f"{sshd.bin}:{os.environ['PATH']}"
        keys = {"type": "ssh", "host": ALIAS, "python": sys.executable, "remote_dir": f"{folder}/training"}
        config = make_project(backends={"gpu": keys})
        with Session(config, purpose="bench", warm=False) as session, answering_agents(config):
            print("first runs:")
            for backend in ("local", "gpu"):
                one(session, config, backend)
            print("then:")
            took: dict[str, list[float]] = {"local": [], "gpu": []}
            for _ in range(told.pairs):
                for backend, all_s in took.items():
                    all_s.append(one(session, config, backend))
        local_s, ssh_s = (statistics.median(all_s) for all_s in took.values())
        print(f"median: local {local_s:.2f} s, ssh {ssh_s:.2f} s: {ssh_s - local_s:+.2f} s")


if __name__ == "__main__":
    main()
