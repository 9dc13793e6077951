"""What every renderer takes, and what it is."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pearl.lang.diagnostics import Diagnostic
from pearl.lang.source import Source
from pearl.lang.text import pattern

_ROW = pattern(r"(.+\.jsonl):(\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Report:
    """A source and what was found in it."""

    source: Source
    diagnostics: Sequence[Diagnostic]


@dataclass(frozen=True, slots=True)
class Renderer:
    """A form of findings, written as they come, so that a million reports need no memory.

    Args:
        part: what is said of one report; empty where nothing is.
        whole: the parts that say something put together, one after another, and the codes of
            their findings, which are all there once the parts have come to their end.
    """

    part: Callable[[Report], str]
    whole: Callable[[Iterable[str], Collection[str]], Iterator[str]]

    def __call__(self, reports: Iterable[Report]) -> str:
        """The text of all reports in this form."""
        codes: set[str] = set()

        def parts() -> Iterator[str]:
            for report in reports:
                codes.update(finding.code for finding in report.diagnostics)
                if text := self.part(report):
                    yield text

        return "".join(self.whole(parts(), codes))


def one_after_another(parts: Iterable[str], _: Collection[str]) -> Iterator[str]:
    """Parts with nothing between them."""
    yield from parts


def apart(parts: Iterable[str], _: Collection[str]) -> Iterator[str]:
    """Parts with an empty line between them."""
    between = ""
    for part in parts:
        yield between + part
        between = "\n"


def place_of_row(source: Source) -> tuple[str, int] | None:
    """File and line of a plan that is one row of a ``.jsonl`` file.

    Lines and columns in the plan are no places in that file.
    """
    match = _ROW.fullmatch(source.name)
    return (match[1], int(match[2])) if match else None
