"""One `Diagnostic`, many renderers. A new one is a file here and a line in `RENDERERS`.

Renderers read fields, never prose, and take findings grouped by source.
"""

from collections.abc import Mapping
from types import MappingProxyType

from pearl.lint.render import github, json, prompt, sarif, terminal
from pearl.lint.render.report import Renderer, Report

RENDERERS: Mapping[str, Renderer] = MappingProxyType(
    {
        "terminal": terminal.render,
        "prompt": prompt.RENDERER,
        "json": json.render,
        "sarif": sarif.render,
        "github": github.render,
    }
)

__all__ = ["RENDERERS", "Renderer", "Report"]
