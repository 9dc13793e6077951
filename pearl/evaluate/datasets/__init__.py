"""Data sets, one a file; a new one is a file with a `Dataset`, and a line in `DATASETS`."""

from pearl.evaluate.datasets import commaqa, decomp, own, quality
from pearl.evaluate.datasets.base import Dataset, Example

DATASETS = (quality.DATASET, own.DATASET, decomp.LETTERS, decomp.REVERSAL, commaqa.DATASET)

__all__ = ["DATASETS", "Dataset", "Example"]
