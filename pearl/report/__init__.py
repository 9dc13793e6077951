"""One `Report`, many forms. A new one is a file here and a line in `FORMS`.

Forms read fields, never prose, and escape what they show: whatever stands in
a report, somebody else may have written.
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
