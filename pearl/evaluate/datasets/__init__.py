"""Data sets, one file for each way their rows are written; a new one is a line in `DATASETS`."""

from pearl.evaluate.datasets import closed_book, commaqa, decomp, multihop, own, quality
from pearl.evaluate.datasets.base import Dataset, Example
from pearl.lang.source import InputError

__all__ = ["DATASETS", "Dataset", "Example", "choose_examples", "find_dataset"]

DATASETS = (
    quality.DATASET,
    own.DATASET,
    decomp.LETTERS,
    decomp.REVERSAL,
    commaqa.DATASET,
    decomp.COMMAQA_E,
    decomp.GSM8K,
    decomp.MULTIARITH,
    multihop.HOTPOTQA,
    multihop.TWO_WIKI,
    multihop.MUSIQUE,
    closed_book.FEVER,
    closed_book.CELEBRITIES,
)


def find_dataset(name: str) -> Dataset:
    """The data set of a name.

    Raises:
        InputError: there is none.
    """
    for dataset in DATASETS:
        if dataset.name == name:
            return dataset
    known = ", ".join(dataset.name for dataset in DATASETS)
    raise InputError(f"There is no data set {name}: use one of {known}.")


def choose_examples(
    dataset: Dataset, path: str, split: str, limit: int = 0, folder: str = ""
) -> list[Example]:
    """The questions to be evaluated.

    Args:
        dataset: the data set.
        path: its file.
        split: one of its splits; ``all`` for every one.
        limit: how many at most, the first of the file; 0 for all.
        folder: where documents are; empty for the file's own.

    Raises:
        InputError: the file cannot be used, has no such question, or one
            whose right answer is not known.
    """
    if split not in (*dataset.splits, "all"):
        known = ", ".join((*dataset.splits, "all"))
        raise InputError(f"{dataset.title} has no split {split}: use one of {known}.")
    examples = [one for one in dataset.read(path, folder) if split in ("all", one.split)]
    if not examples:
        raise InputError(f"{path} has no question in the split {split}: name another.")
    examples = examples[:limit] if limit else examples
    unknown = next((example for example in examples if not example.gold), None)
    if unknown is not None:
        raise InputError(
            f"{path}: the right answer of question {unknown.id} is not known, so it cannot be "
            "scored: give a part of the data that has gold answers."
        )
    return examples
