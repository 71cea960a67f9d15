"""docs/agent-protocol.md says what the code does: routes, headers, codes, limits, examples."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from agent_jobs import handed_over

from potato_ray.agent import protocol
from potato_ray.job import event_log
from potato_ray.mirror import mirror, reading
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.mirror.reading import progress_of, result_of
from potato_ray.server import agent_access, agent_claim, uploads
from potato_ray.server.agent_claim import claim_of
from potato_ray.server.routes import agent_files, agent_jobs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "agent-protocol.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```json ([a-z ]+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MIB = 2**20


def examples(kind: str) -> list[Any]:
    return [json.loads(text) for name, text in EXAMPLES if name == kind]


def table(first: str) -> list[list[str]]:
    """The rows of the table whose head begins with that cell."""
    body = PAGE.split(f"\n| {first} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()[2:]]


def test_every_route_is_in_the_table_and_no_other() -> None:
    routers = (agent_jobs.router, agent_files.router)
    found = {
        (method, route.path)
        for router in routers
        for route in router.routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }
    assert {tuple(row[0].strip("`").split(" ")) for row in table("route")} == found


def test_the_answers_of_each_route_are_those_of_its_description(serve) -> None:
    document = serve().client.get("/openapi.json").json()
    common = {"200", "400", "401", "403", "408", "414", "415", "429", "431", "500", "503", "507"}
    for cells in table("route"):
        method, path = cells[0].strip("`").split(" ")
        told = set(re.findall(r"\d{3}", cells[2]))
        described = set(document["paths"][path][method.lower()]["responses"]) - common
        # 404 is training_disabled, 413 the limit of any body: told of where it means more.
        assert told - {"404", "413"} == described - {"404", "413"}, path


def test_every_header_of_the_protocol_is_in_the_table() -> None:
    ours = {value for name, value in vars(protocol).items() if name.endswith("_HEADER")}
    assert {row[0].strip("`") for row in table("header")} == {*ours, "Authorization"}


def test_the_version_is_that_of_the_code() -> None:
    assert f"version of the protocol is **{protocol.VERSION}**" in PAGE


def codes_in(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant):
            found.add(str(node.value.value))
    return found


def test_every_code_that_an_agent_may_get_is_told_and_each_that_is_told_exists() -> None:
    server = ROOT / "potato_ray" / "server"
    ours = [
        *server.glob("agent_[acdhjtvw]*.py"),
        *server.glob("routes/agent_[jf]*.py"),
        server / "uploads.py",
    ]
    ours += (ROOT / "potato_ray" / "mirror").glob("*.py")
    codes = set().union(*map(codes_in, ours)) - {"cannot_listen"}
    codes |= {
        protocol.OTHER_BACKEND,
        protocol.STALE,
        protocol.GAP,
        protocol.UNKNOWN_PROTOCOL,
        "predictions_too_large",
    }
    told = {row[1].strip("`") for row in table("status")}
    of_all = {"training_disabled", "unknown_run", "unsatisfiable_range", "controller_unavailable"}
    assert told - of_all - {"registry_locked", "project_unwritable", "disk_full"} == codes - of_all
    listed = (ROOT / "docs" / "errors.md").read_text("utf-8")
    assert {code for code in told if f"| `{code}` |" not in listed} == set()


def test_the_limits_are_those_of_the_code() -> None:
    limits = {row[0]: row[1] for row in table("what")}
    assert limits["`wait_s`"].startswith(f"{protocol.MAX_WAIT_S} seconds")
    assert limits["events in a report"] == str(protocol.MAX_EVENTS)
    assert limits["notes in a report"] == str(reading.MAX_NOTES)
    assert limits["a report"] == f"{protocol.MAX_PROGRESS_BYTES // MIB} MiB"
    assert limits["a result"].startswith(f"{agent_jobs.MAX_RESULT_BYTES // MIB} MiB")
    assert f"{reading.MAX_LOG_CHARS:,} characters" in limits["a result"]
    assert limits["a claim"] == f"{agent_claim.MAX_BYTES // 1024} KiB"
    assert limits["events of a job, in all"] == f"{mirror.MAX_EVENTS_BYTES // MIB} MiB"
    assert f"after {event_log.TEXT_LIMIT:,} characters, nesting after {event_log.DEPTH_LIMIT} levels" in PAGE
    assert f"{agent_access.WRONG_TOKENS} wrong tokens" in PAGE
    assert f"for {uploads.STALL_S:.0f} s, or less than 1 KiB a second" in PAGE
    assert f"not whole within {uploads.TIMEOUT_S:.0f} s" in PAGE
    assert uploads.LEAST_BYTES_PER_S == 1024
    assert f"{agent_files.MB:,} bytes" in PAGE


def test_the_claim_of_the_page_is_one() -> None:
    (claim,) = examples("claim")
    taken = claim_of(json.dumps(claim).encode())
    assert (taken.lease, taken.wait_s, dict(taken.agent)) == (claim["lease"], claim["wait_s"], claim["agent"])
    assert taken.backend == claim["backend"]


def test_the_job_of_the_page_has_the_fields_of_a_job(tmp_path) -> None:
    (shown,) = examples("job")
    made = handed_over(tmp_path / "run", tmp_path / "state", "x", "workstation")
    assert {name: type(value) for name, value in shown.items()} == {
        name: type(value) for name, value in made.items()
    }


def test_reports_and_results_of_the_page_are_taken() -> None:
    (progress,) = examples("progress")
    assert len(progress_of(progress).events) == 1
    results = [result_of(each) for each in examples("result")]
    assert [each.is_success for each in results] == [True, False]
    assert results[1].failure is not None


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("progress answer", {"cancel", "grace_seconds", "next_seq"}),
        ("predictions answer", {"bytes"}),
        ("result answer", {"next_seq"}),
    ],
)
def test_the_answers_of_the_page_have_the_fields_of_answers(kind: str, fields: set[str]) -> None:
    (shown,) = examples(kind)
    assert set(shown) == fields


def test_the_files_of_a_mirror_are_those_of_the_code(tmp_path) -> None:
    folder = MirrorFolder(tmp_path)
    ours = {name for name in vars(MirrorFolder) if isinstance(vars(MirrorFolder)[name], property)}
    named = {getattr(folder, name).name for name in ours} | {"mirror.json", "heartbeat"}
    assert set(re.findall(r"`([\w.]+)`", " ".join(row[0] for row in table("file")))) == named
