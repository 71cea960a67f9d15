"""`potato-ray training agent`: what `python -m potato_ray.agent` does, options and all."""

from __future__ import annotations

from collections.abc import Sequence


def run_agent(arguments: Sequence[str]) -> int:
    """Work for a server until told to stop; the exit code."""
    from potato_ray.agent.command_line import main

    return main(arguments)
