"""A real Potato 2.12.1 server on a project, in an environment of its own."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
BOOT_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 30.0


def potato_command() -> Path | None:
    """Potato's command: POTATO_RAY_POTATO, or that of .venv-potato; None when there is none."""
    path = Path(os.environ.get("POTATO_RAY_POTATO") or ROOT / ".venv-potato" / "bin" / "potato")
    return path if path.is_file() else None


class PotatoServer:
    """Runs from `with` to the end of its block; `url` answers meanwhile."""

    def __init__(self, command: Path, config: Path, admin_key: str = "fixture-admin-key") -> None:
        self.command = command
        self.config = config
        self.admin_key = admin_key
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PotatoServer:
        log = (self.config.parent / "potato-server.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [str(self.command), "start", self.config.name, "-p", str(self.port), "--host", "127.0.0.1"],
                cwd=self.config.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_for_boot()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(15)

    def _wait_for_boot(self) -> None:
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=2):  # noqa: S310 - our own server
                    return
            except OSError:
                assert self._process is not None
                assert self._process.poll() is None, (self.config.parent / "potato-server.log").read_text()
                assert time.monotonic() < deadline, "Potato did not come up"
                time.sleep(0.1)

    def checked_labels(self, annotator: str, instance_id: str) -> list[str]:
        """The radio labels that Potato's page has filled in for an annotator who has not answered yet."""
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        login = urllib.parse.urlencode({"email": annotator, "pass": ""}).encode()
        browser.open(f"{self.url}/auth", login, timeout=CALL_TIMEOUT_S).close()
        query = urllib.parse.urlencode({"instance_id": instance_id})
        with browser.open(f"{self.url}/annotate?{query}", timeout=CALL_TIMEOUT_S) as page:
            html = page.read().decode("utf-8")
        assert instance_id in html
        inputs = re.findall(r'<input[^>]*type="radio"[^>]*>', html)
        assert inputs
        values = [re.search(r'value="([^"]*)"', each) for each in inputs if re.search(r"\bchecked\b", each)]
        return [value.group(1) for value in values if value]

    def api(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """A call of Potato's training API as its admin; a body makes it a POST."""
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self.url}/admin/training/api/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"X-API-Key": self.admin_key, "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:  # noqa: S310
            return dict(json.load(answer))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
