"""The switches of Ray: environment variables that it reads when it is imported, or even later.

The package `potato_ray.actors` sets them before any of its modules can import Ray; nothing else of ours
may import it. What they are for:

- every port on 127.0.0.1, and token authentication with a token file of mode 0600;
- no usage report;
- no memory monitor (it may kill the controller), no growing event buffers, normal niceness;
- few calls held ready in Ray's central server (12 MB less), and never a cluster that nobody asked for:
  a call that comes after the end would start one.
"""

from __future__ import annotations

import os

SWITCHES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_worker_niceness": "0",
    "RAY_worker_oom_score_adjustment": "0",
    "RAY_task_events_report_interval_ms": "0",
    # Never -1: gcs_server then writes some 100 MB a second.
    "RAY_event_stats_print_interval_ms": "0",
    "RAY_debug_dump_period_milliseconds": "0",
    # The only switch that keeps every port on 127.0.0.1.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_DEDUP_LOGS": "0",
    "RAY_gcs_max_active_rpcs_per_handler": "8",
    "RAY_gcs_server_rpc_server_thread_num": "1",
    "RAY_ENABLE_AUTO_CONNECT": "0",
    # On machines with many cores glibc keeps many heaps for the threads of each process.
    "MALLOC_ARENA_MAX": "2",
    # Else Ray writes a stack trace to stderr at every SIGTERM before our own handler is asked.
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",
}


def set_switches() -> None:
    """Set them for this process and those that it starts."""
    os.environ.update(SWITCHES)
