"""For programs: every table as objects, with numbers where there are any."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pearl.lang.text import json_text
from pearl.report.document import Block, Chart, Report, Table


def render(report: Report) -> str:
    """The report as JSON."""
    return json_text(as_object(report))


def as_object(report: Report) -> dict[str, Any]:
    """A report as JSON data."""
    return {
        "title": report.title,
        "about": dict(report.about),
        "blocks": [_block(block) for block in report.blocks],
    }


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, Table):
        return {"table": block.title, "rows": _rows(block), "note": block.note}
    if isinstance(block, Chart):
        return {
            "chart": block.title,
            "kind": block.kind,
            "x": block.x_label,
            "y": block.y_label,
            "series": [asdict(one) for one in block.series],
        }
    return {"text": list(block.paragraphs)}


def _rows(table: Table) -> list[dict[str, Any]]:
    if table.data:
        return [dict(row) for row in table.data]
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in table.rows]
