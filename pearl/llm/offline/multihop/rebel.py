"""What REBEL asks, answered by rules: split, memory, tool, input, reply, answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pearl.llm.calls import FillSchema
from pearl.llm.offline.multihop.answering import walk
from pearl.llm.offline.multihop.comparing import compare
from pearl.llm.offline.multihop.given import asked, content, covers, listed, same, shortened, told
from pearl.llm.offline.multihop.hops import conclude, is_solved, replay
from pearl.llm.offline.multihop.names import number
from pearl.llm.offline.multihop.paragraphs import under_titles
from pearl.llm.offline.multihop.parts import parts
from pearl.llm.offline.text import words

LONGEST = 2000
"""Characters of an answer."""

_FINDS = re.compile(
    r"\b(?:search|find|look|passage|article|encyclop|document|corpus|wiki|text)", re.I
)
_COUNTS = re.compile(r"\b(?:calculat|arithmetic|comput)", re.IGNORECASE)
_SUM = re.compile(
    r"[-+(]?\d[\d\s.,]*(?:\s*(?:[-+*/^%]|\*\*|plus|minus|times|divided by)\s*[-(]?\d[\d.,]*\)?)+"
)
_SAID = {"plus": "+", "minus": "-", "times": "*", "divided by": "/", "^": "**"}
_QUESTION_END = re.compile(r"\?\s*: |: (?=[^:]*$)")


def split(call: FillSchema) -> Mapping[str, Any]:
    """The questions to be answered before the question."""
    question = asked(call)
    known = [*listed(call, "answered"), question]
    found = _apart(question)
    fresh = [
        one
        for one in dict.fromkeys(found)
        if 3 <= len(one) <= 600 and not any(same(one, it) for it in known)
    ]
    return {"sub_questions": fresh}


def memory(call: FillSchema) -> Mapping[str, Any]:
    """Whether the facts hold the answer."""
    return {"answerable": _settled(asked(call), facts(call)) is not None}


def answer(call: FillSchema) -> Mapping[str, Any]:
    """The answer that the facts lead to."""
    known = facts(call)
    found = _settled(asked(call), known)
    if found is None:
        now = replay(asked(call), known)
        near = [
            (len(content(one) & content(now)), -at, said) for at, (one, said) in enumerate(known)
        ]
        best = max(near, default=(0, 0, ""))
        found = best[2] if best[0] else None
    return {"answer": shortened(found, LONGEST) or None if found else None}


def tool(call: FillSchema) -> Mapping[str, Any]:
    """The tool whose words are most like the question's; one that finds texts, else."""
    question = asked(call)
    offered = [one.partition(":") for one in told(call, "tools").splitlines() if ":" in one]
    listed_tools = [(name.strip(), about) for name, _, about in offered]
    return {"tool": _chosen(question, listed_tools) or "none"}


def fill_input(call: FillSchema) -> Mapping[str, Any]:
    """A tool's parameters, by their types and what they are said to be."""
    question = replay(asked(call), facts(call))
    return {
        one.name: _value(question, f"{one.name} {one.about}", json.loads(one.schema))
        for one in call.schema.fields
    }


def read(call: FillSchema) -> Mapping[str, Any]:
    """The answer in a tool's reply: of JSON the field that is asked for, of a text a name."""
    question, reply = asked(call), told(call, "reply")
    found = _read(question, reply)
    return {"answer": shortened(found, LONGEST) or None if found else None}


def facts(call: FillSchema) -> list[tuple[str, str]]:
    """What is known: questions and their answers."""
    found = []
    for one in listed(call, "facts"):
        end = re.search(r"\? ?: ?", one) or re.search(r": ", one)
        if end:
            found.append(
                (
                    one[: end.start()].strip() + ("?" if "?" in end[0] else ""),
                    one[end.end() :].strip(),
                )
            )
    return found


def _apart(question: str) -> list[str]:
    comparison = compare(question)
    if comparison:
        about = [thing.name for thing in comparison.things]
        found = []
        for asks in comparison.chain:
            found += [asks.replace("{}", one) for one in about]
            described = asks.removeprefix("Who is ").removesuffix("?")
            about = [described.replace("{}", one) for one in about]
        return found
    return [one.question for one in parts(question)]


def _settled(question: str, known: list[tuple[str, str]]) -> str | None:
    """The answer, where it follows from what is known alone."""
    direct = next((said for one, said in reversed(known) if same(one, question)), None)
    if direct is not None:
        return direct
    now = replay(question, _plainer(known))
    comparison = compare(now)
    if comparison:
        return conclude(question, _plainer(known)) if not comparison.questions() else None
    covering = [said for one, said in reversed(known) if is_solved(now, one) or covers(one, now)]
    return covering[0] if covering else None


def _plainer(known: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Facts with what earlier ones describe put in: *the director of A*, by his name."""
    found: list[tuple[str, str]] = []
    for question, said in known:
        for earlier, name in found:
            described = re.sub(r"^(?:who|what) (?:is|was) ", "", earlier, flags=re.I).rstrip("?")
            question = question.replace(described, name)
        found.append((question, said))
    return found


def _chosen(question: str, offered: list[tuple[str, str]]) -> str:
    if _SUM.search(question):
        counting = [name for name, about in offered if _COUNTS.search(f"{name} {about}")]
        if counting:
            return counting[0]
    asks = set(words(question))
    best, most = "", 0
    for name, about in offered:
        shared = len(asks & set(words(f"{name.replace('_', ' ')} {about}")))
        if shared > most and not _COUNTS.search(about):
            best, most = name, shared
    finding = [name for name, about in offered if _FINDS.search(f"{name} {about}")]
    return best or (finding[0] if finding else "")


def _value(question: str, about: str, schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """A value for a parameter that fits its schema, as far as a question gives one."""
    from pearl.llm.offline.multihop.values import value

    return value(question, about, schema, _expression(question))


def _expression(question: str) -> str:
    found = _SUM.search(question[:LONGEST])
    if not found:
        return ""
    text = found[0].strip().rstrip(".,")
    for said, sign in _SAID.items():
        text = text.replace(said, sign)
    return re.sub(r"(?<=\d),(?=\d{3})", "", text)


def _read(question: str, reply: str) -> str | None:
    try:
        data = json.loads(reply)
    except (ValueError, RecursionError):
        if not reply.strip():
            return None
        read = reply if "\n# " in f"\n{reply}" else under_titles(reply.split("\n\n"))
        return walk(read, question)[1] or None
    texts = list(_texts(data))
    if texts:
        return walk("\n\n".join(texts), question)[1] or None
    asks = set(words(question))
    leaves = [
        (len(asks & set(words(path.replace("_", " ")))), -at, said)
        for at, (path, said) in enumerate(_leaves(data, ""))
    ]
    best = max(leaves, default=(0, 0, ""))
    wants = number(best[2]) is not None
    return best[2] if best[0] or (len(leaves) == 1 and wants) else None


def _texts(data: Any, depth: int = 0) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """The longer texts of a reply, each under its title."""
    if depth > 8:
        return
    if isinstance(data, dict):
        said = [(key, one) for key, one in data.items() if isinstance(one, str)]
        title = next((one for key, one in said if key in ("title", "name", "heading")), "")
        for _, one in said:
            if len(one.split()) > 5:
                yield f"# {' '.join(title.split())}\n\n{one}" if title else one
        data = list(data.values())
    if isinstance(data, list):
        for one in data:
            if isinstance(one, dict | list):
                yield from _texts(one, depth + 1)
            elif isinstance(one, str) and len(one.split()) > 5 and depth == 0:
                yield one


def _leaves(data: Any, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    if depth > 8:
        return
    if isinstance(data, dict):
        for key, one in data.items():
            yield from _leaves(one, f"{path} {key}", depth + 1)
    elif isinstance(data, list):
        for one in data:
            yield from _leaves(one, path, depth + 1)
    elif data is not None and str(data).strip():
        yield path, str(data)
