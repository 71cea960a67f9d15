"""The script that an agent on a host is started by: start.py REQUEST.

A script and not `python -m`, as for launchers: the code runs wherever it was copied to, and neither the
working directory nor the folder of this script is searched for modules.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from_here = __file__.rsplit("/", 1)[0]
    sys.path[:] = [entry for entry in sys.path if entry not in ("", ".", from_here)]
    sys.path.insert(0, __file__.rsplit("/", 3)[0] or "/")
    from potato_ray.host.agent_start import main

    sys.exit(main(sys.argv[1:]))
