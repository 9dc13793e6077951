"""Values for a tool's parameters, from a question's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pearl.llm.offline.multihop.names import capitals, dates, numbers
from pearl.llm.offline.multihop.names import number as number_of
from pearl.llm.offline.text import words

_EXPRESSION = re.compile(r"\b(?:expression|formula|arithmetic|calculation)\b", re.IGNORECASE)
_NAMED = re.compile(
    r"\b(?:city|town|place|location|country|name|person|title|entity|topic)\b", re.I
)
_DAY = re.compile(r"\b(?:date|day|year)\b", re.IGNORECASE)


def value(question: str, about: str, schema: Any, expression: str) -> Any:  # noqa: ANN401 - any JSON
    """A value that a question gives for a parameter.

    Args:
        question: with what is known put in.
        about: the parameter's name and what it is said to be.
        schema: the JSON schema of its values.
        expression: the sum that the question holds; empty where it holds none.

    Returns:
        A value of the schema's type; it may break a narrower rule of the schema.
    """
    if not isinstance(schema, Mapping):
        return question
    options = [one for one in schema.get("anyOf", ()) if isinstance(one, Mapping)]
    if options:
        can_be_left_out = any(one.get("type") == "null" for one in options)
        return None if can_be_left_out else value(question, about, options[0], expression)
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return _one_of(question, schema["enum"])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind:
        case "integer" | "number":
            return _numeric(question, schema, whole=kind == "integer")
        case "boolean":
            return schema.get("default", False)
        case "null":
            return None
        case "array":
            inner = value(question, about, schema.get("items", {"type": "string"}), expression)
            return [inner] * max(1, int(schema.get("minItems", 1)))
        case "object":
            inside = schema.get("properties", {})
            wanted = schema.get("required", list(inside))
            return {one: value(question, one, inside.get(one, {}), expression) for one in wanted}
        case _:
            return _text(question, about, schema, expression)


def _one_of(question: str, options: list[Any]) -> Any:  # noqa: ANN401 - any JSON
    plain = question.casefold()
    named = [one for one in options if str(one).casefold() in plain]
    if named:
        return max(named, key=lambda one: len(str(one)))
    asks = set(words(question))
    return max(options, key=lambda one: len(asks & set(words(str(one).replace("_", " ")))))


def _numeric(question: str, schema: Mapping[str, Any], *, whole: bool) -> int | float:
    spans = numbers(question)
    found = number_of(question[spans[0].start : spans[0].end]) if spans else None
    chosen = float(schema.get("default", schema.get("minimum", 1))) if found is None else found
    chosen = max(chosen, float(schema.get("minimum", chosen)))
    chosen = min(chosen, float(schema.get("maximum", chosen)))
    return int(chosen) if whole else chosen


def _text(question: str, about: str, schema: Mapping[str, Any], expression: str) -> str:
    if _EXPRESSION.search(about) and expression:
        found = expression
    elif _DAY.search(about) and dates(question):
        first = dates(question)[0]
        found = question[first.start : first.end]
    elif _NAMED.search(about):
        spans = [question[one.start : one.end] for one in capitals(question)]
        found = max(spans, key=len, default=question)
    else:
        found = question
    most = schema.get("maxLength")
    found = found[:most] if isinstance(most, int) else found
    least = schema.get("minLength", 0)
    return found if len(found) >= least else found.ljust(least, "?")
