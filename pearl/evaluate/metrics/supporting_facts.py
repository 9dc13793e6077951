"""How well an answer over several paragraphs is supported, and whether replies had their form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pearl.evaluate.datasets import Example
from pearl.evaluate.datasets.multihop import MultiHop
from pearl.evaluate.metrics.answers import bare, best, compare_sets
from pearl.evaluate.metrics.quotes import facts_of
from pearl.runtime import Entry
from pearl.runtime.schemas import FITTED

_FIRST = "/1"
"""What ends the path of a first reply to a demand."""

_FITTED = f"/{FITTED}"


def supported(
    example: Example,
    answer: str,
    sentences: Iterable[str],
    triples: Iterable[Sequence[str]],
    entries: Iterable[Entry],
) -> Mapping[str, float]:
    """Measures of an answer that comes with its evidence.

    Supporting facts are compared as sets of (title, sentence) (HotpotQA,
    section 5.2), for MuSiQue as sets of paragraphs, by their numbers. Joint
    figures are those of answer and facts together, and of the triples too where
    the data set has them (2WikiMultihopQA, section 5).

    Args:
        example: the question with its gold.
        answer: the answer.
        sentences: what it rests on, copied from the document.
        triples: the same as subject, relation, object.
        entries: the run's journal, in which it is told which replies fitted.

    Returns:
        ``sp_em``, ``sp_f1``, ``sp_precision``, ``sp_recall``, ``joint_em``,
        ``joint_f1``; with gold triples ``triples_em`` and ``triples_f1``; and
        `form` of the journal. The last alone where there are no gold facts.
    """
    data = example.data
    if not isinstance(data, MultiHop) or not data.facts:
        return form(entries)
    facts = compare_sets(facts_of(data, sentences), frozenset(data.facts))
    joint = best(example, answer).jointly(facts)
    found = {
        "sp_em": facts.exact_match,
        "sp_f1": facts.f1,
        "sp_precision": facts.precision,
        "sp_recall": facts.recall,
    }
    if data.triples:
        # Articles count here: 2WikiMultihopQA's script leaves them in.
        told = compare_sets(_bare(triples), _bare(data.triples))
        joint = joint.jointly(told)
        found |= {"triples_em": told.exact_match, "triples_f1": told.f1}
    return {**found, "joint_em": joint.exact_match, "joint_f1": joint.f1, **form(entries)}


def form(entries: Iterable[Entry]) -> Mapping[str, float]:
    """``format``: the share of demands whose first reply had the demanded form.

    A reply has been mended where it has not; that costs a call, and counts
    against the share. Nothing is said of a run in which no form was demanded.

    Args:
        entries: the run's journal, in which each demand's end says which reply
            had the form (`pearl.runtime.fill`).
    """
    told = list(entries)
    first = {one.path for one in told if one.kind == "call" and one.path.endswith(_FIRST)}
    # A step of a plan may be called as such a decision is; it was never asked for in tries.
    fitted = [
        one.value
        for one in told
        if one.kind == "decision"
        and one.path.endswith(_FITTED)
        and f"{one.path.removesuffix(_FITTED)}{_FIRST}" in first
    ]
    return {"format": sum(one == 1 for one in fitted) / len(fitted)} if fitted else {}


def _bare(triples: Iterable[Sequence[str]]) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(map(bare, one)) for one in triples)
