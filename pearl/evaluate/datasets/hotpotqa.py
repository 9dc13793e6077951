"""HotpotQA: questions over two of ten paragraphs of Wikipedia.

Yang et al., "HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question
Answering", EMNLP 2018.
"""

from pearl.evaluate.datasets.base import Dataset
from pearl.evaluate.datasets.wiki import read
from pearl.evaluate.metrics import measures, score

DATASET = Dataset(
    "hotpotqa",
    "HotpotQA",
    (),
    read,
    score,
    "https://hotpotqa.github.io (hotpot_dev_distractor_v1.json)",
    ("normal", "cot", "sp-cot", "react", "fsm1", "fsm2", "rebel"),
    measures,
    short=True,
)
