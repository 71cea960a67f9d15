"""`python -m potato_ray.agent`."""

from __future__ import annotations

import sys

from potato_ray.agent.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
