"""One file for a browser: no script, nothing from elsewhere, light and dark, readable aloud."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape

from pearl.lang.text import printable
from pearl.report.document import Block, Chart, Column, Report, Table
from pearl.report.plots import drawn


def render(report: Report) -> str:
    """The report as a page.

    Raises:
        InputError: it has charts, and matplotlib is not installed.
    """
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    about = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(told)}</dd></div>" for name, told in report.about
    )
    body = "\n".join(
        part for at, block in enumerate(report.blocks, 1) for part in _block(block, at)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(report.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_text(report.title)}</h1>\n"
        + (f"<dl>{about}</dl>\n" if about else "")
        + f"{body}\n</main>\n</body>\n</html>\n"
    )


def _block(block: Block, number: int) -> Iterator[str]:
    if isinstance(block, Table):
        yield _table(block, number)
    elif isinstance(block, Chart):
        yield (
            f'<figure aria-labelledby="f{number}"><figcaption id="f{number}">{_text(block.title)}'
            f'</figcaption><div class="wide" tabindex="0" role="group" '
            f'aria-labelledby="f{number}">{_drawn(block, number)}</div></figure>'
        )
    else:
        yield from (f"<p>{_text(one)}</p>" for one in block.paragraphs)


def _drawn(chart: Chart, number: int) -> str:
    """A chart as a picture, or as bars of text where there is nothing to draw with."""
    try:
        from pearl.report.plots import svg

        return svg(chart, f"c{number}")
    except ImportError:
        lines = "\n".join(map(_text, drawn(chart, _COLUMNS)))
        return f'<pre>{lines}</pre><p class="note">{_MISSING}</p>'


def _table(table: Table, number: int) -> str:
    heads = "".join(
        f'<th scope="col"{_side(column)}>{_text(column.title)}</th>' for column in table.columns
    )
    rows = "\n".join(f"<tr>{''.join(_cells(row, table.columns))}</tr>" for row in table.rows)
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    # What is wider than the screen is moved by keys as well as by hand.
    return (
        f'<section><h2 id="t{number}">{_text(table.title)}</h2>'
        f'<div class="wide" tabindex="0" role="group" aria-labelledby="t{number}">'
        f'<table aria-labelledby="t{number}"><thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>{note}</section>"
    )


def _cells(row: tuple[str, ...], columns: tuple[Column, ...]) -> Iterator[str]:
    for at, (cell, column) in enumerate(zip(row, columns, strict=True)):
        if at:
            yield f"<td{_side(column)}>{_text(cell)}</td>"
        else:
            yield f'<th scope="row"{_side(column)}>{_text(cell)}</th>'


def _side(column: Column) -> str:
    return ' class="right"' if column.align == "right" else ""


def _text(text: str) -> str:
    # What `printable` takes out is no character of HTML, nor are these two.
    return escape(printable(text).replace("\ufffe", "�").replace("\uffff", "�"))


_COLUMNS = 76
"""Characters a line of a chart in text."""

_MISSING = "Drawn as text, as matplotlib is not installed: pip install matplotlib."

_STYLE = """
:root{--page:#fff;--ink:#1c2333;--dim:#566079;--line:#d9dee8;--soft:#f5f7fa;
--c1:#4c6a9c;--c2:#b3763a;--c3:#4f8a6b;--c4:#96577f;--c5:#7f7a35;--c6:#6b7280}
@media(prefers-color-scheme:dark){:root{--page:#14171f;--ink:#e8ecf5;--dim:#a7b0c4;
--line:#333b4d;--soft:#1b202b;--c1:#7f9fd4;--c2:#d69a5c;--c3:#76b593;--c4:#c487ad;
--c5:#b5ae5f;--c6:#9aa3b2}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,"Segoe UI","DejaVu Sans",sans-serif}
main{max-width:66rem;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 1rem}
h2,figcaption{font-size:1.05rem;font-weight:600;line-height:1.35;margin:2.2rem 0 .5rem}
figcaption{margin-top:0}
dl{display:grid;gap:.15rem;margin:0 0 1.2rem}
dl div{display:flex;flex-wrap:wrap;gap:0 .8rem}
dt{color:var(--dim);min-width:9rem}
dd{margin:0;overflow-wrap:anywhere;flex:1 1 12rem}
p{max-width:46rem;margin:.6rem 0;overflow-wrap:anywhere}
.note{color:var(--dim);font-size:.88rem;margin:.45rem 0 0}
.wide{overflow-x:auto}
.wide:focus-visible{outline:2px solid var(--c1);outline-offset:3px}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums;
border-top:2px solid var(--ink);border-bottom:2px solid var(--ink)}
th,td{padding:.32rem .55rem;text-align:left;vertical-align:baseline;white-space:nowrap}
thead th{vertical-align:bottom;border-bottom:1px solid var(--ink);white-space:normal;
font-weight:600;max-width:11rem}
tbody th{font-weight:400;background:var(--page)}
tr th:first-child{position:sticky;left:0}
thead th:first-child{background:var(--page)}
tbody tr:nth-child(even),tbody tr:nth-child(even) th{background:var(--soft)}
th:first-child,td:first-child{padding-left:.2rem}
.right{text-align:right}
figure{margin:2.2rem 0 0}
svg{display:block;width:100%;min-width:26rem;max-width:44rem;height:auto;
font-family:system-ui,"Segoe UI","DejaVu Sans",sans-serif;stroke-linejoin:round}
@media(max-width:40rem){main{padding:1.2rem .9rem 3rem}body{font-size:15px}
th,td{padding:.3rem .5rem}}
@media print{.wide{overflow:visible}section,figure{break-inside:avoid}}
"""
