"""The mirror of a job folder: what an agent sends of its own, kept in the run's folder on the server.

    agent's machine                          server
    events.jsonl, artifacts/ … ── HTTP ──▶   <runs>/<run_id>/events.jsonl, artifacts/ …   (written here)
                                                         └──▶ the task that follows the run (reads)

Plain files: it knows neither the web framework nor Ray, and works while both restart.
"""
