"""Questions answered from passages that a step was given, and not from the document."""

from __future__ import annotations

from pearl.llm.calls import ExecuteStep
from pearl.llm.offline.multihop.hops import conclude
from pearl.llm.offline.multihop.paragraphs import under_titles
from pearl.llm.offline.multihop.searching import search
from pearl.values import as_text


def from_passages(call: ExecuteStep) -> str | None:
    """What passages say on a question; None where the step has no such two arguments.

    A question that has what was found out about its names, in brackets behind
    them, is decided by that.

    Args:
        call: a step that is given a list of texts and a question, and no document.
    """
    lists = [value for _, value in call.arguments if isinstance(value, list)]
    asked = [as_text(value) for _, value in call.arguments if not isinstance(value, list)]
    if len(lists) != 1 or len(asked) != 1 or not asked[0].rstrip().endswith("?"):
        return None
    decided = conclude(asked[0], [])
    if decided:
        return decided
    answer = search(under_titles(as_text(one) for one in lists[0]), asked[0]).answer
    return answer or "The passages do not say."
