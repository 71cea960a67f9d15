"""What streams cost the server: its share of one core with 200 clients, idle and beside a busy run.

python tests/bench/bench_stream.py [CLIENTS] [SECONDS]
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

import yaml

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS / "testbeds"))

from served_process import EVENTS_PER_S, KEY, Reporting, Served, listeners, served  # noqa: E402

from potato_ray.config import load  # noqa: E402
from potato_ray.registry import Registry, RegistryReader  # noqa: E402


def make_project(folder: Path) -> Path:
    shutil.copytree(TESTS / "projects" / "review-sentiment", folder / "p")
    path = folder / "p" / "config.yaml"
    body = yaml.safe_load(path.read_text("utf-8"))
    body["admin_api_key"] = KEY
    path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
    return path


async def measure(server: Served, registry_path: Path, clients: int, seconds: float) -> None:
    alone = server.memory_mb()
    async with listeners(server.port, clients) as made:
        print(f"{clients} clients, idle:           {await server.share(seconds):6.1%} of a core")
        print(f"memory per client:          {(server.memory_mb() - alone) / clients * 1024:6.0f} KiB")
        with Reporting(registry_path):
            await asyncio.sleep(1)
            statuses = made[0].statuses
            print(
                f"{clients} clients, {EVENTS_PER_S} events/s:    {await server.share(seconds):6.1%} of a core"
            )
            print(f"statuses a second:          {(made[0].statuses - statuses) / seconds:6.1f}")


def snapshots(folder: Path, runs: int = 10_000) -> None:
    path = folder / "many.sqlite"
    with Registry(path, "demo") as registry:
        registry._connection.execute("BEGIN")
        for number in range(runs):
            registry._connection.execute(
                "INSERT INTO potato_ray_runs (run_id, project, trainer, schemas, kinds, params, backend,"
                ' "trigger", accept_licence, state, created_at, finished_at, scores) VALUES'
                " (?, 'demo', 't', '[]', '[]', '{}', 'local', 'api', 0, 'success', 0, ?, ?)",
                (f"r{number}", number, '{"x": "' + "y" * 3000 + '"}'),
            )
        registry._connection.execute("COMMIT")
    reader = RegistryReader(path)
    reader.snapshot()
    began = time.perf_counter()
    for _ in range(100):
        reader.snapshot()
    took = (time.perf_counter() - began) / 100
    print(f"snapshot among {runs} runs: {took * 1000:6.2f} ms")


def main() -> None:
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    with tempfile.TemporaryDirectory(prefix="prb-", dir="/tmp") as name:
        snapshots(Path(name))
        config = make_project(Path(name))
        with served(config) as server:
            asyncio.run(measure(server, load(config).registry_path, clients, seconds))


if __name__ == "__main__":
    main()
