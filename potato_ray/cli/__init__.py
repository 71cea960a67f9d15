"""The command line, `potato-ray`.

Results go to stdout, progress and messages to stderr. Exit codes: 0 done, 1 an error or findings,
2 wrong usage, 130 stopped by Ctrl-C. Ray, numpy and scikit-learn are imported only by the commands
that need them, so `--help` and `validate` start at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point: run a command, and say an error of ours in three lines instead of a traceback."""
    from potato_ray.cli.app import app
    from potato_ray.cli.bash_words import pairs_as_words
    from potato_ray.cli.output import print_error
    from potato_ray.errors import PotatoRayError

    try:
        with pairs_as_words():
            app()
    except PotatoRayError as error:
        print_error(error)
        sys.exit(1)
    except BrokenPipeError:
        # The reader (head, less) has gone; what was asked for has been said.
        sys.stderr.close()
        sys.exit(1)
