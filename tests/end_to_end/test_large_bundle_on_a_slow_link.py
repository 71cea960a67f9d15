"""A large bundle on its way over a slow link that is cut three times: it arrives, and each byte once."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nat import Nat
from slow_link import SlowLink
from test_agent_behind_nat import BACKENDS, Lab
from whole_runs import projects, reader_of

from potato_ray.config import ProjectConfig
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

IS_LONG = bool(os.environ.get("POTATO_RAY_LONG"))
pytestmark = [pytest.mark.ray, pytest.mark.timeout(900 if IS_LONG else 300)]

BUNDLE_MB = 200 if IS_LONG else 40
SILENCE_S = 70.0 if IS_LONG else 4.0  # the agent takes a stream for dead after a minute without a byte
BREAK_S = 2.0
DEADLINE_S = 600.0 if IS_LONG else 150.0
MB = 2**20
ITEM_BYTES = 75_000  # 100,000 characters in base64, of which packing leaves about as many bytes again


def add_incompressible_items(config: ProjectConfig) -> None:
    """More items, which nobody has labelled and no archive makes smaller than BUNDLE_MB."""
    noise = random.Random(0)
    (path,) = config.data_paths
    items = json.loads(path.read_text("utf-8"))
    for number in range(BUNDLE_MB * MB // ITEM_BYTES + 1):
        text = base64.b64encode(noise.randbytes(ITEM_BYTES)).decode()
        items.append({"id": f"noise-{number}", "text": text})
    path.write_text(json.dumps(items), "utf-8")


class SlowLab(Lab):
    """The same with a slow line to the workstation."""

    link: SlowLink

    def sent_bytes(self) -> int:
        """What the server's only way out has sent, what had to be sent again included."""
        return int(self._told(self.nat.server, "cat", "/sys/class/net/toward/statistics/tx_bytes"))

    def _told(self, name: str, *command: str) -> str:
        inside = [*self.nat.inside(name), *command]
        return subprocess.run(inside, capture_output=True, text=True, check=True, timeout=20).stdout

    def fetched_bytes(self, run_id: str) -> int:
        parts = self.workdir.glob(f"jobs/{run_id}*/**/.*.part")
        return sum(path.stat().st_size for path in parts)

    def bundle_bytes(self, run_id: str) -> int:
        job = json.loads(MirrorFolder(self.config.training_dir / "runs" / run_id).job.read_text("utf-8"))
        return int(job["bundle"]["bytes"])

    def wait_until_fetched(self, run_id: str, share: float) -> None:
        """Wait until so much of the bundle is on the workstation."""
        deadline = time.monotonic() + DEADLINE_S
        while self.fetched_bytes(run_id) < share * BUNDLE_MB * MB:
            run = self.run(run_id)
            assert not run.ended, (run.state, run.error, run.error_evidence)
            assert time.monotonic() < deadline, (run.step, self.agents[0].said)
            time.sleep(0.02)

    def run(self, run_id: str) -> Run:
        return reader_of(self.config).run(run_id)

    def fall_silent(self) -> None:
        """Lose every packet for a while; neither side hears of it."""
        self.link.cut()
        time.sleep(SILENCE_S)
        self.link.mend()

    def break_off(self) -> None:
        """The router forgets the connections and says so, then the line is down for a while."""
        forget = ("FORWARD", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset")
        self._told(self.nat.router, "iptables", "-I", *forget)
        time.sleep(0.5)
        self.link.cut()
        time.sleep(BREAK_S)
        self._told(self.nat.router, "iptables", "-D", *forget)
        self.link.mend()

    def ended(self, run_id: str) -> Run:
        deadline = time.monotonic() + DEADLINE_S
        while not self.run(run_id).ended:
            assert time.monotonic() < deadline, (self.run(run_id).step, self.agents[0].said)
            time.sleep(0.05)
        return self.run(run_id)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[SlowLab]:
    with Nat() as nat, SlowLink(nat, delay_ms=25.0, rate_mbit=24.0) as link, projects() as make_project:
        config = make_project(backends=BACKENDS)
        add_incompressible_items(config)
        lab = SlowLab(nat, config, tmp_path / "work")
        lab.link = link
        yield lab
        lab.dismiss()
        lab.server.close()


def test_a_large_bundle_arrives_over_a_link_that_is_cut_three_times_and_each_byte_once(lab: SlowLab) -> None:
    lab.agent()
    before = lab.sent_bytes()
    run_id = lab.start("succeed")
    lab.wait_until_fetched(run_id, 0.01)
    size = lab.bundle_bytes(run_id)
    for share, cut in ((0.2, lab.fall_silent), (0.45, lab.break_off), (0.7, lab.break_off)):
        lab.wait_until_fetched(run_id, share)
        cut()
    run = lab.ended(run_id)
    assert (run.state, run.attempt) == (State.SUCCESS, 1), (run.error, run.error_evidence, lab.agents[0].said)
    sent = lab.sent_bytes() - before
    assert size > 0.98 * BUNDLE_MB * MB
    assert sent <= 1.1 * size + 2 * MB, f"{sent / MB:.1f} MB were sent of a bundle of {size / MB:.1f} MB"
