"""The worker: trains one model in its job folder and says everything in events.jsonl.

    python -m potato_ray.job.worker JOBDIR     (a launcher does this; by hand, for looking at a failure)

Its exit code is one of events.EXIT_*. Exactly one `result` event, the last one, means success.
"""

from __future__ import annotations

import argparse
import atexit
import faulthandler
import importlib
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn, Sequence

from potato_ray.job import child
from potato_ray.job.claim import LaunchFailed, open_logs, read_spec
from potato_ray.job.collection import pass_over_what_is_loaded
from potato_ray.job.event_log import EventLog
from potato_ray.job.events import EXIT_CANCELLED, EXIT_FINISHED
from potato_ray.job.failures import Failure, explain
from potato_ray.job.folder import JobFolder
from potato_ray.job.reporting import JobReporter, Stopped, StopSignal
from potato_ray.job.spec import JobSpec

FAREWELL_S = 10.0
"""How long exit handlers of libraries may take once the result is safe."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Work through one job and end the process with its exit code."""
    parser = argparse.ArgumentParser(prog="potato_ray.job.worker", description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="the job folder")
    parser.add_argument("--spare", nargs="*", metavar="TRAINER", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    child.watch_parent()
    if options.spare is not None:
        folder = _wait_for_job(options.spare)
    elif options.folder is not None:
        folder = JobFolder(options.folder.resolve())
    else:
        parser.error("name a job folder")
    _leave(work(folder))


def work(folder: JobFolder) -> int:
    """Do the job in `folder`; returns the exit code, after a result or an error event."""
    faulthandler.enable()
    stop = StopSignal()
    log = EventLog(folder.events)
    name = ""
    try:
        stop.install()
        spec = read_spec(folder)
        name = spec.trainer
        _train(folder, spec, log, stop)
        return EXIT_FINISHED
    except Stopped:
        log.write("log", level="info", message="The worker stopped on request.")
        return EXIT_CANCELLED
    except LaunchFailed as failure:
        return _report(log, Failure("bad_spec", failure.message, failure.next_step))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the run must be told
        if stop.received:
            return EXIT_CANCELLED
        _print_traceback()
        return _report(log, explain(error, name))


def _train(folder: JobFolder, spec: JobSpec, log: EventLog, stop: StopSignal) -> None:
    # Imported late: what fails before it, an unreadable spec, is told all the same.
    from potato_ray.job.training import Training

    Training(folder, spec, log, JobReporter(log, stop)).run()


def _report(log: EventLog, failure: Failure) -> int:
    try:
        log.write("error", code=failure.code, message=failure.message, next_step=failure.next_step)
    except OSError:
        _print_traceback()  # a full disk; the exit code still speaks
    return failure.exit_code


def _print_traceback() -> None:
    try:
        traceback.print_exc()
    except OSError:
        pass  # stderr.log lies on the same full disk


def _wait_for_job(trainers: Sequence[str]) -> JobFolder:
    """Load ahead, say so, and wait for one line on stdin; its end means that there will be no job."""
    import potato_ray.job.training  # noqa: F401
    from potato_ray.trainers.registry import require_trainer

    for name in trainers:
        try:
            for module in require_trainer(name).preload:
                importlib.import_module(module)
        except Exception:  # noqa: BLE001 - the run that needs it will say it better
            traceback.print_exc()
    pass_over_what_is_loaded()
    os.write(1, b"ready\n")
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(EXIT_FINISHED)
    return _take_job(json.loads(line))


def _take_job(job: Any) -> JobFolder:
    """Become the worker of `job`: its environment, its folder, its logs."""
    for name, value in job["late"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    folder = JobFolder(job["job"])
    os.chdir(str(folder.path))
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in enumerate((nothing, *open_logs(folder))):
        os.dup2(source, target)
        os.close(source)
    child.limit_data(job["data_limit_mb"])
    return folder


def _leave(code: int) -> NoReturn:
    """End now: run the exit handlers, but wait neither for them for ever nor for stray threads."""
    watchdog = threading.Timer(FAREWELL_S, os._exit, [code])
    watchdog.daemon = True
    watchdog.start()
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
