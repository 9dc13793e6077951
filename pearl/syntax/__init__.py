"""Text to plans and back."""

from pearl.syntax.libraries import parse_library
from pearl.syntax.printer import print_action, print_plan, print_step
from pearl.syntax.reader import parse
from pearl.syntax.tree import Aside, Broken, Parsed, ParsedLibrary

__all__ = [
    "Aside",
    "Broken",
    "Parsed",
    "ParsedLibrary",
    "parse",
    "parse_library",
    "print_action",
    "print_plan",
    "print_step",
]
