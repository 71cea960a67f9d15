"""`python -m potato_ray.agent`, and agent.pyz."""

from __future__ import annotations

import sys

from potato_ray.agent.command_line import main, started_as

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], command=started_as(sys.argv[0])))
