"""How alike two actions are, by the words of their names and definitions; and groups of them.

Nothing here asks a model, and nothing is learnt: what counts are the words that
say what an action finds, and a rare word counts for more than one that many
actions share.
"""

from pearl.alike.grouping import clearest, group
from pearl.alike.likeness import FLOOR, SURE, likeness
from pearl.alike.reading import Reading, given, narrow, read_action
from pearl.alike.wording import arguments, made_up, phrase, widened

__all__ = [
    "FLOOR",
    "SURE",
    "Reading",
    "arguments",
    "clearest",
    "given",
    "group",
    "likeness",
    "made_up",
    "narrow",
    "phrase",
    "read_action",
    "widened",
]
