"""Plans written by a model: prompt, parse, check, correct."""

from pearl.planner.demonstrations import choose_demonstrations, load_demonstrations
from pearl.planner.generate import Planned, write_plan

__all__ = ["Planned", "choose_demonstrations", "load_demonstrations", "write_plan"]
