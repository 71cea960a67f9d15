"""A webhook hears of runs' ends: from a command without a server, and after the controller was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from receiver import HANG, Receiver
from whole_runs import MakeProject, OpenSession, ended, reader_of, start

from potato_ray.config import ProjectConfig
from potato_ray.webhook import signature

pytestmark = pytest.mark.ray

DEADLINE_S = 60.0
PROGRAM = "from potato_ray.cli import main; main()"


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.05)


def said(config: ProjectConfig, run_id: str) -> list[str]:
    return [event.get("message", "") for event in reader_of(config).events(run_id)]


def test_a_notice_outlives_the_controller_that_was_sending_it(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    with Receiver(HANG, 200) as receiver:
        config = make_project(notify={"url": receiver.url})
        session = open_session(config)
        controller = session.call("ready")["pid"]
        run_id = start(session, act="succeed")
        assert ended(config, run_id).state == "success"
        wait_for(lambda: len(receiver.got) == 1)
        os.kill(controller, signal.SIGKILL)
        wait_for(lambda: len(receiver.got) == 2)
        wait_for(lambda: any("The webhook was delivered" in message for message in said(config, run_id)))
        first, second = receiver.got
    assert session.call("ready")["pid"] != controller
    assert first.body["delivery_id"] == second.body["delivery_id"]
    assert second.body["run_id"] == run_id
    assert second.body["headline"]["metric"] == "macro_f1"


def test_a_command_without_a_server_sends_a_signed_notice_before_it_ends(make_project: MakeProject) -> None:
    with Receiver(200) as receiver:
        config = make_project(notify={"url": receiver.url, "secret_env": "HOOK_SECRET"})
        arguments = ("-t", "rehearsal", "-s", "sentiment", "-p", "min_instances=9999")
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "training", "run", "config.yaml", *arguments],
            cwd=config.task_dir,
            env={**os.environ, "HOOK_SECRET": "hush"},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        (got,) = receiver.got
    assert done.returncode == 1, done.stderr
    sent = int(got.body["sent_at"])
    assert got.headers["potato-ray-signature"] == signature("hush", sent, got.raw)
    assert (got.body["state"], got.body["error_code"], got.body["url"]) == (
        "error",
        "validation_failed",
        None,
    )
    assert "hush" not in done.stdout + done.stderr
