"""Data sets, one file for each way their rows are written; a new one is a line in `DATASETS`."""

from pearl.evaluate.datasets import (
    arithmetic,
    celebrities,
    commaqa,
    decomp,
    fever,
    hotpotqa,
    musique,
    own,
    quality,
)
from pearl.evaluate.datasets.base import Dataset, Example

DATASETS = (
    quality.DATASET,
    own.DATASET,
    decomp.LETTERS,
    decomp.REVERSAL,
    commaqa.DATASET,
    decomp.COMMAQA_E,
    arithmetic.GSM8K,
    arithmetic.MULTIARITH,
    hotpotqa.HOTPOTQA,
    hotpotqa.TWO_WIKI,
    musique.DATASET,
    fever.DATASET,
    celebrities.DATASET,
)

__all__ = ["DATASETS", "Dataset", "Example"]
