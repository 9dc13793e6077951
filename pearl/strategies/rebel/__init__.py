"""REBEL: a question is split until a tool, or what is known, answers each part.

Sodani, Moos and Mirman, "LLM Guided Inductive Inference for Solving
Compositional Problems", 2023 (arXiv 2309.11688).
"""

from pearl.strategies.rebel.limits import RebelLimits
from pearl.strategies.rebel.recursion import Rebel
from pearl.strategies.rebel.start import LIBRARY, rebel

__all__ = ["LIBRARY", "Rebel", "RebelLimits", "rebel"]
