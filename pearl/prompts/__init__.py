"""The words of every call: one template a file, rendered in one place."""

from pearl.prompts.render import render

__all__ = ["render"]
