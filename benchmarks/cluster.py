"""A batch in one process, and on a local Dask cluster, against the stub endpoint.

python -m benchmarks.cluster [--questions N] [--latency MS]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.scale import job_in, write_questions
from benchmarks.stub import Stub
from pearl.jobs.job import start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--questions", type=int, default=1000)
    options.add_argument("--latency", type=float, default=50.0, help="milliseconds a call takes")
    chosen = options.parse_args()
    rates = {}
    for name in ("", "local"):
        with tempfile.TemporaryDirectory() as folder, Stub(latency=chosen.latency / 1000) as stub:
            os.environ |= {"OPENAI_BASE_URL": stub.url, "OPENAI_API_KEY": "stub"}
            home = Path(folder)
            write_questions(home, chosen.questions, 20)
            started = time.monotonic()
            progress = start(*job_in(home, name))
            rates[name] = progress.done / (time.monotonic() - started)
            told = stub.stats()
        print(
            f"{name or 'one process':12} {rates[name]:6.0f} questions/s, {told['completed']:,} "
            f"calls, {told['repeats']} of them twice"
        )
    print(f"cluster ÷ one process: {rates['local'] / rates['']:.2f}, with the cluster's start")


if __name__ == "__main__":
    main()
