"""The application in a process of its own, on a registry that another process writes, without Ray.

python served_process.py CONFIG    prints its port, and serves until it gets SIGTERM
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from potato_ray.registry import NewRun, Registry, State

NEW = NewRun("sklearn-text", ("sentiment",), ("nominal",))
EVENTS_PER_S = 10
KEY = "the-admin-key-of-the-tests"
STREAM = "/admin/training/api/stream"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class ReadyLink:
    """A controller that is up and takes no commands."""

    trouble = None

    def __init__(self) -> None:
        from potato_ray.server.context import Phase

        self.phase = Phase.READY

    async def command(self, method: str, *args: Any) -> Any:
        raise NotImplementedError(method)


def main(config_path: str) -> None:
    import uvicorn

    from potato_ray.config import load
    from potato_ray.registry.reading import RegistryReader
    from potato_ray.server.app import create_app
    from potato_ray.server.context import ServerContext

    config = load(Path(config_path))
    reader = RegistryReader(config.registry_path, project=config.annotation_task_name)
    app = create_app(ServerContext(config, reader, ReadyLink(), admin_key=KEY))
    listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - what the parent waits for
    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])


class Served:
    """The process, seen from outside."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def cpu_s(self) -> float:
        """User and system time of the process so far, seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    async def share(self, seconds: float) -> float:
        """The share of one core that it takes for so long."""
        before, began = self.cpu_s(), time.monotonic()
        await asyncio.sleep(seconds)
        return (self.cpu_s() - before) / (time.monotonic() - began)

    def memory_mb(self) -> float:
        """Its resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@contextmanager
def served(config_path: Path, port: int = 0) -> Iterator[Served]:
    """Serve until the block ends; the process is gone then."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(config_path), str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield Served(process, int(process.stdout.readline()))
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


class Reporting:
    """A run, in a thread of the process that measures, which says something ten times a second."""

    def __init__(self, registry_path: Path) -> None:
        self.path = registry_path
        self.entries = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._report)

    def __enter__(self) -> Reporting:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _report(self) -> None:
        with Registry(self.path, "demo") as registry:
            run = registry.create_run(NEW, queue_max=9, allow_queue=True, max_concurrent=1)
            registry.begin(run.run_id, None, 1)
            registry.transition(run.run_id, 1, State.RUNNING)
            said = 0
            while not self._stop.wait(1 / EVENTS_PER_S):
                registry.record_events(run.run_id, 1, said, [_event(said)])
                said += 1
            registry.transition(run.run_id, 1, State.ERROR)
        self.entries = said + len(("queued", "building", "running", "error"))


def _event(number: int) -> dict[str, Any]:
    if number % 2:
        return {"event": "metric", "name": "loss", "value": 1 / number, "step": number}
    return {"event": "progress", "current": number, "total": 1000, "eta_s": 5.0}


class Listener:
    """One connection that asked for the stream; `listen` counts what comes."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.reader = reader
        self.runs = self.statuses = 0
        self.raw = b""

    async def listen(self) -> None:
        """Read until the server ends the stream."""
        rest = b""
        while piece := await self.reader.read(65536):
            lines, end, rest = (rest + piece).rpartition(b"\n")
            self.runs += (lines + end).count(b"event: run\n")
            self.statuses += (lines + end).count(b"event: status\n")


@asynccontextmanager
async def listener(
    port: int, query: str = "", version: str = "1.0", **headers: str
) -> AsyncIterator[Listener]:
    """One connection, which has asked for the stream; by HTTP 1.0 it comes without the marks of chunks."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"GET {STREAM}{query} HTTP/{version}", "Host: 127.0.0.1", f"X-API-Key: {KEY}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        yield Listener(reader)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def listeners(port: int, count: int) -> AsyncIterator[list[Listener]]:
    """So many connections that are read all the time; each has got its first status."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(listener(port, version="1.1")) for _ in range(count)]
        tasks = [asyncio.create_task(each.listen()) for each in made]
        deadline = time.monotonic() + 60
        while any(each.statuses == 0 for each in made):
            assert time.monotonic() < deadline, "not every client got a status"
            await asyncio.sleep(0.05)
        yield made
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    main(sys.argv[1])
