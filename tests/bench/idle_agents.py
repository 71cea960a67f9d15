"""What idle agents cost a server: 500 long polls, the status beside them, and a job for the last one.

    python tests/bench/idle_agents.py [AGENTS] [SECONDS]

The agents are simulated, each with a connection of its own; the server is a process of its own, with a
controller that trains nothing. Prints one line a figure.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "testbeds"))
PROJECT = Path(__file__).parents[1] / "projects" / "review-sentiment"
KEY = "the-admin-key-of-the-bench"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def make_project(folder: Path) -> Path:
    shutil.copytree(PROJECT, folder)
    path = folder / "config.yaml"
    body = yaml.safe_load(path.read_text("utf-8"))
    body["admin_api_key"] = KEY
    backends = {"workstation": {"type": "agent"}, "laptop": {"type": "agent"}}
    body["model_training"].update(backends=backends, max_concurrent_runs=9)
    path.write_text(yaml.safe_dump(body), "utf-8")
    return path


def serve(path: Path, line: Any) -> None:
    """The server's process: tells its port and tokens, then offers a run for each message it gets."""
    from agent_link import AgentLink

    from potato_ray.config import load
    from potato_ray.registry.reading import RegistryReader
    from potato_ray.server.app import create_app
    from potato_ray.server.context import ServerContext
    from potato_ray.server.listening import Listening, bind

    config = load(path)
    link = AgentLink(config)
    context = ServerContext(config, RegistryReader(config.registry_path), link, admin_key=KEY)
    listener = bind("127.0.0.1", 0)
    Listening(create_app(context), listener, ended=lambda: None).start()
    line.send((listener.getsockname()[1], link.token("workstation"), link.token("laptop")))
    while backend := line.recv():
        link.offer(backend)
        line.send(time.time())


async def ask(
    port: int, method: str, path: str, headers: dict[str, str], body: Any = None
) -> tuple[int, float]:
    """Status of one request on a connection of its own, and the seconds that it took."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        data = b"" if body is None else json.dumps(body).encode()
        told = {"Host": "localhost", "Content-Length": str(len(data)), "Connection": "close", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data)
        answer = await reader.read()
    finally:
        writer.close()
    return int(answer.split()[1]), time.perf_counter() - began


async def poll(port: int, token: str, number: int, statuses: list[int]) -> float:
    """Claim again and again; when there was a job, the time."""
    headers = {"Authorization": f"Bearer {token}", "Potato-Ray-Protocol": "1"}
    body = {"lease": f"{number:032x}", "wait_s": 50.0, "agent": {"id": str(number), "host": "h"}}
    while True:
        # Agents are started one by one, so they do not come back in step either.
        body["wait_s"] = random.uniform(20, 50)
        status, _ = await ask(port, "POST", "/api/training/jobs/claim", headers, body)
        statuses.append(status)
        if status == 200:
            return time.time()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def measure(server: Any, line: Any, n_agents: int, seconds: float) -> None:
    port, token, last_token = line.recv()
    empty_mb = rss_mb(server.pid)
    statuses: list[int] = []
    polls = [asyncio.ensure_future(poll(port, token, number, statuses)) for number in range(n_agents - 1)]
    last = asyncio.ensure_future(poll(port, last_token, n_agents, statuses))
    await asyncio.sleep(10)
    began, used = time.perf_counter(), cpu_s(server.pid)
    await asyncio.sleep(seconds)
    share = (cpu_s(server.pid) - used) / (time.perf_counter() - began)
    print(
        f"{n_agents} idle agents: {100 * share:.1f} % of a core, {rss_mb(server.pid) - empty_mb:.0f} MiB more"
    )
    taken = []
    for _ in range(200):
        status, took = await ask(port, "GET", "/admin/training/api/status", {"X-API-Key": KEY})
        assert status == 200
        taken.append(1000 * took)
        await asyncio.sleep(0.02)
    print(f"status beside them: median {statistics.median(taken):.1f} ms, p99 {sorted(taken)[-2]:.1f} ms")
    line.send("laptop")
    offered_at = line.recv()
    print(f"a job for the last of them: {1000 * (await asyncio.wait_for(last, 30) - offered_at):.0f} ms")
    assert set(statuses) <= {200, 204}, set(statuses)
    for each in polls:
        each.cancel()
    line.send(None)


def main() -> None:
    n_agents = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    ours, theirs = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        path = make_project(Path(folder) / "project")
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(path, theirs), daemon=True)
        server.start()
        try:
            asyncio.run(measure(server, ours, n_agents, seconds))
        finally:
            server.terminate()
            server.join(10)


if __name__ == "__main__":
    main()
