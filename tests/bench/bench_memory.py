#!/usr/bin/env python3
"""What an idle server costs: the memory of each of its processes, with the spare worker and without.

    python tests/bench/bench_memory.py [--idle 30] [--starts 3]

MiB of proportional set size (PSS): a page that several processes share is divided among them, so the sum is
what the machine would have free without the server. Also the time from the start to the first answer of
/health. Not a test; tests/end_to_end/test_server_memory.py holds the sums to their limits.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "testbeds"))

from server_process import ServerProcess, memory_mb  # noqa: E402

from potato_ray.config import ProjectConfig, load  # noqa: E402


def measure(config: ProjectConfig, idle_s: float, *arguments: str) -> None:
    """Print one table."""
    server = ServerProcess(config, *arguments, as_installed=True)
    try:
        server.wait_ready()
        time.sleep(idle_s)
        measured = memory_mb(server.processes())
        server.end(signal.SIGTERM)
    finally:
        server.close()
    print(f"\npotato-ray start {' '.join(arguments)}: {idle_s:.0f} s after it was ready")
    for name, mb in sorted(measured.items(), key=lambda each: -each[1]):
        print(f"  {mb:7.1f}  {name.replace(chr(10), ' ')[:90]}")
    print(f"  {sum(measured.values()):7.1f}  together")


def first_answer_s(config: ProjectConfig) -> float:
    """Seconds from the start of the process to the first 200 of /health."""
    server = ServerProcess(config)
    try:
        server.health()
        took_s = time.monotonic() - server.began
        server.end(signal.SIGTERM)
    finally:
        server.close()
    return took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--idle", type=float, default=30.0, help="seconds to wait before measuring")
    parser.add_argument("--starts", type=int, default=3, help="how many starts to time")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
    try:
        shutil.copytree(TESTS / "projects" / "review-sentiment", folder / "p")
        config = load(folder / "p" / "config.yaml")
        times = [f"{first_answer_s(config):.2f}" for _ in range(options.starts)]
        print(f"first answer of /health after {', '.join(times)} s")
        for arguments in ((), ("--no-spare",)):
            measure(config, options.idle, *arguments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
