"""Our own generator of CommaQA-like data (docs/generating.md)."""

from pearl.generating.generate import PARTS, generate
from pearl.generating.read import read_schema, shipped_schemas, shipped_text
from pearl.generating.schema import Schema
from pearl.generating.theories import Theory, theories_of

__all__ = [
    "PARTS",
    "Schema",
    "Theory",
    "generate",
    "read_schema",
    "shipped_schemas",
    "shipped_text",
    "theories_of",
]
