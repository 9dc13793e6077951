"""The same attack, led by atheris: texts that reach code of the splitter, the grammar or the parser
which no other has reached are mutated further.

python -m tests.fuzz.guided [SECONDS] (pip install atheris). Ends at the first text that does
not hold, and prints it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit("This needs atheris: pip install atheris.")

# Within the block, as only what is imported there gets what counts its branches.
with atheris.instrument_imports(include=["pearl.lang"]):
    from pearl.lang.library import load_library
    from tests.fuzz.mutation import problems, seeds


def main() -> None:
    """Attack for so many seconds; 60 unless told."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    library = load_library()

    def attack(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        if found := list(problems(text, library)):
            raise AssertionError(f"{', '.join(found)}: {text!r}")

    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(seeds()):
            (Path(folder) / str(number)).write_bytes(text)
        limits = [f"-max_total_time={seconds}", "-max_len=4096", "-rss_limit_mb=0"]
        atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={folder}/", folder], attack)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
