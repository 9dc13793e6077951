"""Tools that a run may use: declared in ``tools.toml``, called within limits, masked.

A call reaches the declared host and no other; what it answers is data.
"""

from pearl.tools.base import Limits, Parameter, Tool, ToolError, ToolReply, Tools
from pearl.tools.reading import read_tools
from pearl.tools.solving import solver
from pearl.tools.toolbox import Toolbox, load_tools

__all__ = [
    "Limits",
    "Parameter",
    "Tool",
    "ToolError",
    "ToolReply",
    "Toolbox",
    "Tools",
    "load_tools",
    "read_tools",
    "solver",
]
