"""How quickly a model comes home from a host, beside rsync and tar over the same login.

    python tests/bench/artifact_copy_speed.py [--rounds 3] [--big-mb 330] [--small 2000] [--rtt-ms 0]

A real sshd, on loopback or over a link with that round-trip time, which needs root; one file of --big-mb
MB, and --small files of 10 KB. Each way brings each folder in turn, --rounds times; the medians are
compared. rsync has to be installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "testbeds"))

from far_sshd import far_sshd
from sshd import ALIAS, Sshd

from potato_ray.backends.artifact_copy import ArtifactCopy
from potato_ray.backends.host_dialogue import Bytes, Dialogue
from potato_ray.shipping.host_archive import host_archive
from potato_ray.ssh import Connection, Destination

LIMIT_MB = 4096.0


class Host:
    """One login, and what lies on the host as the artifacts of a run for each folder."""

    def __init__(self, sshd: Sshd, folder: Path) -> None:
        self.connection = Connection.open(Destination(ALIAS))
        self.folder = folder
        self.archive = host_archive(folder / "state")
        self.ssh = str(sshd.bin / "ssh")

    def artifacts(self, name: str) -> Path:
        return self.folder / "training" / "runs" / f"{name}.1" / "jobs" / f"{name}.1" / "artifacts"

    def ours(self, name: str, target: Path) -> None:
        copy = ArtifactCopy(target, ALIAS, LIMIT_MB)
        request = {
            "do": "send_artifacts",
            "remote_dir": str(self.folder / "training"),
            "run_id": name,
            "attempt": 1,
            "code": self.archive.sha256,
            "max_artifact_mb": LIMIT_MB,
            "have": {},
        }
        with Dialogue(self.connection, sys.executable, request) as dialogue:
            if not dialogue.hear("facts", 60.0)["has_code"]:
                dialogue.send_line({"archive_bytes": self.archive.n_bytes})
                dialogue.send(self.archive.path.read_bytes())
            dialogue.hear("code", 60.0)
            copy.receive(Bytes(dialogue.channel))

    def rsync(self, name: str, target: Path) -> None:
        command = ["rsync", "-a", "-e", self.ssh, f"{ALIAS}:{self.artifacts(name)}/", f"{target}/"]
        subprocess.run(command, check=True, timeout=600.0)

    def tar(self, name: str, target: Path) -> None:
        target.mkdir()
        command = f"{self.ssh} {ALIAS} tar -C {self.artifacts(name)} -cf - . | tar -C {target} -xf -"
        subprocess.run(["sh", "-c", command], check=True, timeout=600.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--big-mb", type=int, default=330)
    parser.add_argument("--small", type=int, default=2000)
    parser.add_argument("--rtt-ms", type=float, default=0.0)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp") as made, far_sshd(told.rtt_ms) as sshd:
        os.environ["PATH"] = f"{sshd.bin}:{os.environ['PATH']}"
        host = Host(sshd, Path(made))
        fill(host, told.big_mb, told.small)
        for name in ("big", "small"):
            compare(host, name, told.rounds, Path(made) / "target")
        host.connection.close()


def fill(host: Host, big_mb: int, n_small: int) -> None:
    big, small = host.artifacts("big"), host.artifacts("small")
    big.mkdir(parents=True)
    (big / "model.bin").write_bytes(os.urandom(big_mb << 20))
    for number in range(n_small):
        folder = small / f"part-{number % 40}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.bin").write_bytes(os.urandom(10_240))


def compare(host: Host, name: str, rounds: int, target: Path) -> None:
    ways: dict[str, Callable[[str, Path], None]] = {"ours": host.ours, "rsync": host.rsync, "tar": host.tar}
    took: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, bring in ways.items():
            shutil.rmtree(target, ignore_errors=True)
            began = time.perf_counter()
            bring(name, target)
            took[way].append(time.perf_counter() - began)
    medians = {way: statistics.median(all_s) for way, all_s in took.items()}
    for way, seconds in medians.items():
        every = ", ".join(f"{each:.2f}" for each in took[way])
        print(f"{name:5} {way:5} {seconds:5.2f} s ({every})")
    best = min(seconds for way, seconds in medians.items() if way != "ours")
    print(f"{name:5} {best / medians['ours']:.2f} times the speed of the better of the two")


if __name__ == "__main__":
    main()
