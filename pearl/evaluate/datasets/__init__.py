"""Data sets, one a file; a new one is a file with a `Dataset`, and a line in `DATASETS`."""

from pearl.evaluate.datasets import (
    arithmetic,
    celebrities,
    commaqa,
    commaqa_e,
    decomp,
    fever,
    hotpotqa,
    musique,
    own,
    quality,
    two_wiki,
)
from pearl.evaluate.datasets.base import Dataset, Example

DATASETS = (
    quality.DATASET,
    own.DATASET,
    decomp.LETTERS,
    decomp.REVERSAL,
    commaqa.DATASET,
    commaqa_e.DATASET,
    arithmetic.GSM8K,
    arithmetic.MULTIARITH,
    hotpotqa.DATASET,
    two_wiki.DATASET,
    musique.DATASET,
    fever.DATASET,
    celebrities.DATASET,
)

__all__ = ["DATASETS", "Dataset", "Example"]
