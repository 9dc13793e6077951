"""What the states of FSM prompting ask, answered by rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pearl.llm.calls import FillSchema
from pearl.llm.offline.multihop.given import asked, body, listed, shortened, solved, told
from pearl.llm.offline.multihop.hops import conclude, is_solved, next_question, put
from pearl.llm.offline.multihop.searching import search

LONGEST = 500
"""Characters of a sub-question."""

UNKNOWN = "unknown"
"""Said where something has to be, and nothing was found."""


def decompose(call: FillSchema) -> Mapping[str, Any]:
    """The sub-question that can be answered first; the question itself where it is simple."""
    question = asked(call)
    # A refused one stands before the reason why.
    refused = [one.rpartition(" (")[0] or one for one in listed(call, "refused")]
    gone = (*(one for one, _ in solved(call)), *refused)
    first = next_question(question, gone)
    whole = shortened(question, LONGEST) or "?"
    if first is None or len(first) > LONGEST:
        return {"kind": "simple", "sub_question": whole}
    return {"kind": "compound", "sub_question": first}


def find(call: FillSchema) -> Mapping[str, Any]:
    """What the document says on a sub-question."""
    found = search(body(call), asked(call, "sub_question"))
    return {
        "answer": found.answer,
        "evidence": list(found.evidence),
        "paragraphs": list(found.titles),
    }


def revise(call: FillSchema) -> Mapping[str, Any]:
    """The question with a sub-question's answer put in."""
    found = put(asked(call), asked(call, "sub_question"), asked(call, "answer"))
    return {"question": shortened(found, 2000) or "?"}


def judge(call: FillSchema) -> Mapping[str, Any]:
    """Whether nothing is left to ask."""
    return {"same": is_solved(asked(call), asked(call, "sub_question"))}


def summarise(call: FillSchema) -> Mapping[str, Any]:
    """What the answers come to."""
    return {"answer": conclude(asked(call), solved(call)) or UNKNOWN}


def review(call: FillSchema) -> Mapping[str, Any]:
    """An answer with the sentences behind each of its hops."""
    document, hops = body(call), solved(call)
    found = [(one, answer, search(document, one)) for one, answer in hops]
    if not found:
        question = asked(call)
        found = [(question, told(call, "answer"), search(document, question))]
    evidence = dict.fromkeys(one for *_, hop in found for one in hop.evidence)
    triples = [triple(hop.titles, one, answer) for one, answer, hop in found]
    answer = asked(call, "answer") or conclude(asked(call), hops) or UNKNOWN
    said = [f"{one} {answer}." for one, answer in hops if answer]
    return {
        "answer": answer,
        "supporting_facts": list(evidence),
        "triples": triples,
        "explanation": " ".join([*said, f"So the answer is {answer}."]),
    }


def triple(titles: tuple[str, ...], question: str, answer: str) -> list[str]:
    """A hop as subject, relation, object: what it is about, what it asks, what it found.

    Args:
        titles: of the paragraphs that bear on it, best first.
        question: the sub-question.
        answer: its answer.
    """
    from pearl.llm.offline.multihop.asked_for import relation, subject

    about = subject(question) or (titles[0] if titles else "")
    return [about, relation(question), answer]
