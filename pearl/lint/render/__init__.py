"""One `Diagnostic`, many renderers: for a person, for the model, for programs.

A new one is a `Renderer` in a file here and a line in `RENDERERS`.

Renderers read fields, never prose, and take findings grouped by source.
"""

from collections.abc import Mapping
from types import MappingProxyType

from pearl.lang.diagnostics import Renderer
from pearl.lint.render import machine_readable, prompt, terminal

RENDERERS: Mapping[str, Renderer] = MappingProxyType(
    {
        "terminal": terminal.RENDERER,
        "prompt": prompt.RENDERER,
        "json": machine_readable.JSON,
        "sarif": machine_readable.SARIF,
        "github": machine_readable.GITHUB,
    }
)
