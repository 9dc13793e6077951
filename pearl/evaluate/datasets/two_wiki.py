"""2WikiMultihopQA: questions over two to four of ten paragraphs, with evidence triples.

Ho et al., "Constructing A Multi-hop QA Dataset for Comprehensive Evaluation of
Reasoning Steps", COLING 2020. Answers and triples are compared as its first
script does, without the later list of aliases.
"""

from pearl.evaluate.datasets.base import Dataset
from pearl.evaluate.datasets.wiki import read
from pearl.evaluate.metrics import measures, score

DATASET = Dataset(
    "2wiki",
    "2WikiMultihopQA",
    (),
    read,
    score,
    "https://github.com/Alab-NII/2wikimultihop (dev.json)",
    ("normal", "cot", "sp-cot", "react", "fsm1", "fsm2", "rebel"),
    measures,
    short=True,
)
