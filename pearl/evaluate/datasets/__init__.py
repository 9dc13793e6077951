"""Data sets, one file for each way their rows are written; a new one is a line in `DATASETS`."""

from collections.abc import Sequence
from random import Random

from pearl.evaluate.datasets import decomp, multihop, reading
from pearl.evaluate.datasets.base import Dataset, Example
from pearl.lang.errors import InputError
from pearl.lang.text import close_name, counted

DATASETS = (
    reading.QUALITY,
    reading.OWN,
    decomp.LETTERS,
    decomp.REVERSAL,
    decomp.COMMAQA,
    decomp.COMMAQA_E,
    decomp.GSM8K,
    decomp.MULTIARITH,
    multihop.HOTPOTQA,
    multihop.TWO_WIKI,
    multihop.MUSIQUE,
    multihop.FEVER,
    multihop.CELEBRITIES,
)


def find_dataset(name: str) -> Dataset:
    """The data set of a name.

    Raises:
        InputError: there is none.
    """
    for dataset in DATASETS:
        if dataset.name == name:
            return dataset
    names = [dataset.name for dataset in DATASETS]
    close = close_name(name, names)
    raise InputError(f"There is no data set {name}{close}: use one of {', '.join(names)}.")


def choose_examples(
    dataset: Dataset,
    path: str,
    split: str,
    limit: int = 0,
    folder: str = "",
    sample: int = 0,
    seed: int = 1,
) -> list[Example]:
    """The questions to be evaluated.

    Args:
        dataset: the data set.
        path: its file.
        split: its splits, with commas; ``all`` for every one.
        limit: how many at most, the first of the file; 0 for all.
        folder: where documents are; empty for the file's own.
        sample: how many are drawn of those, as `draw_sample` draws; 0 for all.
        seed: of the draw.

    Raises:
        InputError: the file cannot be used, has no such question, or one
            whose right answer is not known.
    """
    splits = split.split(",")
    for name in splits:
        if name not in (*dataset.splits, "all"):
            names = ", ".join((*dataset.splits, "all"))
            raise InputError(f"{dataset.title} has no split {name}: use one of {names}.")
    every = "all" in splits
    examples = [item for item in dataset.read(path, folder) if every or item.split in splits]
    if not examples:
        raise InputError(f"{path} has no question in the split {split}: name another.")
    examples = examples[:limit] if limit else examples
    if sample > len(examples):
        there = counted(len(examples), "question")
        raise InputError(f"{sample:,} questions cannot be drawn of {there}: draw fewer.")
    examples = draw_sample(examples, sample, seed) if sample else examples
    unknown = next((example for example in examples if not example.gold), None)
    if unknown is not None:
        raise InputError(
            f"{path}: the right answer of question {unknown.id} is not known, so it cannot be "
            "scored: give a part of the data that has gold answers."
        )
    return examples


def draw_sample(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """Questions drawn at random, in their order; the same ones for the same seed.

    All of them where there are no more. Each split has its share of them, and in it each kind that
    the data set tells apart first, as Celebrities' categories: rounded down, and the questions that
    are left go to the largest rests.
    """
    strata: dict[object, list[int]] = {}
    for at, example in enumerate(examples):
        strata.setdefault((example.split, next(iter(example.labels.values()), ())), []).append(at)
    count = min(count, len(examples))
    shares = [divmod(count * len(places), len(examples)) for places in strata.values()]
    rest = count - sum(whole for whole, _ in shares)
    largest = sorted(range(len(shares)), key=lambda at: -shares[at][1])[:rest]
    random = Random(seed)  # noqa: S311 - the same draw each time is what is wanted
    chosen = [
        place
        for at, places in enumerate(strata.values())
        for place in random.sample(places, shares[at][0] + (at in largest))
    ]
    return [examples[at] for at in sorted(chosen)]
