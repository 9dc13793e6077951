"""The forms in which a `Report` can be written. A new one is a file here and a line in `FORMS`.

Each form escapes whatever it writes, as the texts in a report are untrusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pearl.lang.text import json_text
from pearl.report import html, latex, text
from pearl.report.document import Report, as_object

FORMS: Mapping[str, Callable[[Report], str]] = MappingProxyType(
    {
        "terminal": text.terminal,
        "markdown": text.markdown,
        "latex": latex.render,
        "html": html.render,
        "json": lambda report: json_text(as_object(report)),
    }
)
