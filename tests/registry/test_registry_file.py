"""The file: deaths, other writers, migrations, damaged and foreign files."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from potato_ray.errors import Conflict, ProjectUnreadable
from potato_ray.registry import Registry, RegistryReader, State
from potato_ray.registry.schema import MIGRATIONS, Migration, migrate, version

WRITER = """
import sys
from pathlib import Path
from potato_ray.registry import NewRun, Registry
registry = Registry(Path(sys.argv[1]), "demo").open()
while True:
    new = NewRun("t", ("s",), ("nominal",))
    run = registry.create_run(new, queue_max=10**6, allow_queue=True, max_concurrent=1)
    sys.stdout.write(run.run_id + "\\n")
    sys.stdout.flush()
"""

HOLDER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
time.sleep(float(sys.argv[2]))
connection.execute("COMMIT")
"""


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_what_was_acknowledged_survives_a_kill(path):
    with start(WRITER, path) as writer:
        acknowledged = [writer.stdout.readline().strip() for _ in range(25)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += writer.stdout.read().split()
        writer.wait(timeout=30)
    with Registry(path, "demo") as registry:
        stored = [run.run_id for run in registry.queued()]
    assert stored[: len(acknowledged)] == acknowledged
    assert len(stored) - len(acknowledged) <= 1


def test_a_torn_write_ahead_log_loses_only_what_was_torn(registry, path, queue_run, tmp_path):
    runs = [queue_run() for _ in range(5)]
    copy = tmp_path / "crashed"
    copy.mkdir()
    for name in ("project.sqlite", "project.sqlite-wal"):
        shutil.copy(path.with_name(name), copy / name)
    log = copy / "project.sqlite-wal"
    os.truncate(log, log.stat().st_size - 1000)
    with Registry(copy / "project.sqlite", "demo") as crashed:
        left = [run.run_id for run in crashed.queued()]
    assert left == [run.run_id for run in runs[: len(left)]]
    assert 1 <= len(left) < 5


def test_a_writer_that_holds_the_lock_for_two_seconds_is_waited_for(registry, path, queue_run):
    with start(HOLDER, path, 2.0) as holder:
        assert holder.stdout.readline() == "held\n"
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert queue_run().position == 0
        assert holder.wait(timeout=30) == 0


def test_a_lock_that_stays_is_named_and_changes_nothing(registry, path, clock):
    with start(HOLDER, path, 0.0) as holder:
        holder.stdout.readline()
        with pytest.raises(Conflict) as refused:
            Registry(path, "demo", clock, busy_timeout_s=0.1).open()
        assert refused.value.code == "registry_locked"
        holder.communicate("\n", timeout=30)


def test_readers_see_the_last_commit_while_somebody_writes(registry, path, run_in):
    run = run_in(State.RUNNING)
    with start(HOLDER, path, 0.0) as holder:
        holder.stdout.readline()
        assert RegistryReader(path, busy_timeout_s=0.1).run(run.run_id).state is State.RUNNING
        holder.communicate("\n", timeout=30)


def test_the_writer_belongs_to_the_thread_that_opened_it(registry, queue_run):
    caught = []

    def elsewhere():
        try:
            queue_run()
        except sqlite3.ProgrammingError as error:
            caught.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(timeout=10)
    assert len(caught) == 1


def test_a_registry_that_was_not_opened_says_so(path):
    with pytest.raises(RuntimeError, match="not open"):
        Registry(path, "demo").queued()


def test_a_second_open_changes_nothing(registry, path, queue_run):
    queue_run()
    assert registry.open() is registry
    registry.close()
    registry.close()
    with Registry(path, "demo") as again:
        assert len(again.queued()) == 1


def test_a_file_that_is_no_database_is_named(path):
    path.write_text("not a database, but long enough to have a header of a hundred bytes" * 4)
    for use in (Registry(path, "demo").open, RegistryReader(path).runs):
        with pytest.raises(ProjectUnreadable) as refused:
            use()
        assert refused.value.code == "registry_unreadable"
        assert str(path) in refused.value.message
    assert path.read_text().startswith("not a database")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ProjectUnreadable):
        Registry(tmp_path / "nowhere" / "project.sqlite", "demo").open()


def test_an_older_file_is_brought_up_to_date_and_keeps_its_rows(registry, path, queue_run, clock):
    run = queue_run()
    registry.close()
    newer = Migration(
        MIGRATIONS[-1].version + 1, "a colour", ("ALTER TABLE potato_ray_runs ADD COLUMN colour TEXT",)
    )
    connection = sqlite3.connect(path, isolation_level=None)
    assert migrate(connection, clock, (*MIGRATIONS, newer)) == newer.version
    assert migrate(connection, clock, (*MIGRATIONS, newer)) == newer.version
    names = connection.execute("SELECT version, applied_at FROM potato_ray_migrations").fetchall()
    assert names == [(each, clock.now) for each in range(1, newer.version + 1)]
    connection.close()
    assert RegistryReader(path).run(run.run_id).run_id == run.run_id


def test_a_migration_that_fails_leaves_the_file_as_it_was(registry, path, clock):
    broken = Migration(MIGRATIONS[-1].version + 1, "broken", ("CREATE TABLE potato_ray_new (a)", "NO SQL"))
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, clock, (*MIGRATIONS, broken))
    assert version(connection) == MIGRATIONS[-1].version
    assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'potato_ray_new'").fetchall()
    connection.close()


def test_a_file_of_a_newer_potato_ray_is_left_alone(registry, path, clock):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("INSERT INTO potato_ray_migrations VALUES (99, 'from the future', 0)")
    connection.close()
    with pytest.raises(Conflict) as refused:
        Registry(path, "demo", clock).open()
    assert refused.value.code == "registry_too_new"
    assert "99" in refused.value.message


def test_the_version_of_the_file_itself_stays_with_its_owner(registry, path):
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
