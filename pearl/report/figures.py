"""Numbers as a reader sees them, alike in every report."""

from __future__ import annotations

NONE = "–"
"""What stands where there is no number."""


def percent(share: float | None) -> str:
    """``72.2 %``, of a share from 0 to 1."""
    return NONE if share is None else f"{100 * share:.1f} %"


def points(difference: float | None) -> str:
    """``+3.4``: a difference of shares, in points of a hundred."""
    return NONE if difference is None else _signed(100 * difference)


def span(low: float | None, high: float | None) -> str:
    """``69.4–74.9``: an interval of shares, in hundredths."""
    return NONE if low is None or high is None else f"{100 * low:.1f}–{100 * high:.1f}"


def signed_span(low: float | None, high: float | None) -> str:
    """``-0.9 to +5.4``: an interval of a difference, in points of a hundred."""
    if low is None or high is None:
        return NONE
    return f"{_signed(100 * low)} to {_signed(100 * high)}"


def number(value: float | None, digits: int = 0) -> str:
    """``1,000``."""
    return NONE if value is None else f"{value:,.{digits}f}"


def questions(count: int) -> str:
    """``1 question``, ``1,000 questions``."""
    return f"{count:,} question{'' if count == 1 else 's'}"


def times(value: float | None) -> str:
    """``2.9 ×``."""
    return NONE if value is None else f"{value:,.1f} ×"


def probability(p: float | None) -> str:
    """A p-value: two digits that count, and no zeros without end."""
    if p is None:
        return NONE
    if p < 0.0001:
        return "<0.0001"
    if p >= 0.995:
        return "1.00"
    return f"{p:.2f}" if p >= 0.1 else f"{p:.3f}" if p >= 0.01 else f"{p:.4f}"


def _signed(value: float) -> str:
    shown = f"{value:+.1f}"
    return "0.0" if shown in ("+0.0", "-0.0") else shown.replace("-", "−")
