"""The words of every call: one template a file, rendered in one place."""

from pearl.prompts.render import render, stable_part

__all__ = ["render", "stable_part"]
