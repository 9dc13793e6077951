"""Data sets, one file for each way their rows are written; a new one is a line in `DATASETS`."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from pearl.evaluate.datasets import decomp, multihop, reading
from pearl.evaluate.datasets.base import Dataset, Example
from pearl.lang.errors import InputError
from pearl.lang.text import close_name

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
        InputError: there is no data set of that name.
    """
    for dataset in DATASETS:
        if dataset.name == name:
            return dataset
    if Path(name).is_file():
        own = f"pearl eval {reading.OWN.name} --data {name}"
        raise InputError(f"{name} is a file, and no data set: {own} evaluates questions of yours.")
    names = [dataset.name for dataset in DATASETS]
    close = close_name(name, names)
    raise InputError(f"There is no data set {name}{close}: use one of {', '.join(names)}.")


def draw_sample(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """Draw ``count`` questions at random (all, where there are fewer), and keep their order.

    The same seed gives the same questions. The sample is stratified by split and by the first label
    of a question, such as Celebrities' categories: each stratum gets its share, rounded down, and
    the rest goes to those with the largest remainders.
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
