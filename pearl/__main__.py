"""The entry point of ``pearl`` and ``python -m pearl``."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading

OBJECTS = 50_000
"""Objects created before Python collects cyclic garbage, of which imported modules leave none."""


def main() -> None:
    """Run the command line, then end the process without the interpreter's usual teardown.

    Teardown and garbage collection would be a seventh of the time `pearl lint` takes for a plan.
    """
    gc.set_threshold(OBJECTS)
    from pearl.cli import main as run_command

    try:
        run_command()
    except SystemExit as end:
        # Python prints an exit code that is a text, and waits for threads, profiler and debugger.
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
