"""The agent under Python 3.8: every module of it, and what it does to the server and the disk."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import wire_server as wire
from parts import need_python38
from private_authority import PrivateAuthority
from wire_server import WireServer

import potato_ray
from potato_ray.agent.line import SLICE_S

ROOT = Path(potato_ray.__file__).parents[1]
IMPORT_ALL = """
import importlib, pkgutil, sys
import potato_ray.agent
for module in pkgutil.walk_packages(potato_ray.agent.__path__, "potato_ray.agent."):
    if not module.name.endswith(".__main__"):
        importlib.import_module(module.name)
print(*sys.version_info[:2], len([name for name in sys.modules if name.startswith("potato_ray.agent.")]))
"""
FETCH = """
import json, sys, threading
from pathlib import Path
from typing import NamedTuple
from potato_ray.agent.connection import ServerConnection
from potato_ray.agent.download import Source, download
from potato_ray.agent.patience import Patience
from potato_ray.agent.unpack import unpack

class Job(NamedTuple):
    run_id: str = "run-1"
    attempt: int = 1
    lease: str = "11"

url, ca_file, folder, sha256, n_bytes = sys.argv[1:]
connection = ServerConnection(url, "prt_token", ca_file=ca_file)
assert connection.claim("11", 5, {}, threading.Event()) is None
archive = Path(folder) / "bundle.tar.gz"
source = Source("/api/training/jobs/run-1/bundle", sha256, int(n_bytes), "bundle")
download(connection, source, archive, patience=Patience(threading.Event(), first_s=0.01), job=Job())
unpack(archive, Path(folder) / "bundle")
connection.put_predictions(Job(), Path(folder) / "bundle" / "train.jsonl")
print(json.dumps(connection.progress(Job(), 0, [{"loss": float("nan")}], [], True)))
connection.close()
"""


def python38(code, *arguments):
    command = [
        need_python38(),
        "-I",
        "-W",
        "error",
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}",
    ]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_every_module_is_imported():
    ended = python38(IMPORT_ALL)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("3 8 ")
    agent = ROOT / "potato_ray" / "agent"
    modules = [path for path in agent.rglob("*.py") if path.stem[:2] != "__"]
    packages = [path.parent for path in agent.glob("*/__init__.py")]
    assert int(ended.stdout.split()[2]) == len(modules) + len(packages)


def bundle(content):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        info = tarfile.TarInfo("train.jsonl")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize("cuts", [(), (200_000, 100_000)])
def test_a_bundle_comes_over_tls_and_predictions_go_back(tmp_path, cuts):
    content = os.urandom(500_000)
    file = wire.File(bundle(content), *cuts)
    authority = PrivateAuthority(tmp_path)
    # Longer than a wait that looks whether to stop takes.
    poll = wire.late(2.5 * SLICE_S, wire.giving(204))
    answers = [poll, *[file] * (1 + len(cuts)), wire.json_of({}), wire.json_of({"cancel": True})]
    with WireServer(*answers, tls=authority.context) as server:
        arguments = [str(authority.ca_file), str(tmp_path), file.sha256, str(len(file.content))]
        ended = python38(FETCH, server.url, *arguments)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"cancel": True}
    assert server.seen[-2].raw == content
    assert server.seen[-1].body["events"] == [{"loss": None}]
    assert server.sent_bytes < 1.1 * len(file.content)
