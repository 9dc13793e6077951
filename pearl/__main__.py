"""The process that ``pearl`` and ``python -m pearl`` are, from its start to its end."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading

OBJECTS = 50_000
"""Objects made before Python looks for cycles among them: what is imported has none."""


def main() -> None:
    """Run the command line, then end the process without taking apart all that it loaded.

    That, and looking for cycles, would be a seventh of the time that `pearl lint` takes for a plan.
    """
    gc.set_threshold(OBJECTS)
    from pearl.cli import main as run_command

    try:
        run_command()
    except SystemExit as end:
        # A thread that still works, a profiler and a debugger are waited for; Python says a text.
        if (
            isinstance(end.code, str)
            or threading.active_count() > 1
            or sys.getprofile()
            or sys.gettrace()
        ):
            raise
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream and not stream.closed:
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)


if __name__ == "__main__":
    main()
