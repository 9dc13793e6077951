"""Steps answered by analogy with their action's examples.

An example that shows a text says how texts state what its action asks for: in
the text's statements, the words of the call and those of the answer become
slots. What other texts state in the same way is read off them. Nothing is
known of any task, and what no example shows is not found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pearl.llm.calls import ExecuteStep
from pearl.llm.offline.slots import Takes, form, holds, named, naming, outermost
from pearl.plan import DOCUMENT, Action, Literal, Prompt
from pearl.values import as_text

LONGEST = 400
"""Characters of a statement that is read; a longer one states more than one thing."""

_ENDS = re.compile(r"(?<=[.!?。！？])\s+")
_SHORTENED = re.compile(r"(?:^|\s)(?:[^\W\d_]|Mr|Mrs|Ms|Dr|St|Mt|Prof|No|vs)\.$")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NUMERIC = Takes(r"\d", r"(?:\d|[.,](?=\d))")
_MARKS = frozenset(";:|=,()[]{}<>\t")
"""Marks between the parts of a statement."""


@dataclass(frozen=True, slots=True)
class Case:
    """An example that shows a text.

    Args:
        text: what stands for the document.
        asked: the other arguments, as texts.
        answers: what it gave: the items of a list, or one text; none for yes or no.
        holds: whether the answer is other than no.
    """

    text: str
    asked: tuple[str, ...]
    answers: tuple[str, ...]
    holds: bool


@dataclass(frozen=True, slots=True)
class Form:
    """How a call is put, and how a statement answers it.

    Args:
        call: patterns of the arguments; their groups are the keys.
        line: a pattern of the statement.
        keys: for each group of the statement, the key that it is; -1 for the answer.
        size: how many characters of the statement are no slot.
    """

    call: tuple[re.Pattern[str], ...]
    line: re.Pattern[str]
    keys: tuple[int, ...]
    size: int


def by_example(call: ExecuteStep) -> str | None:
    """What the document states in the way of the examples, with the statements as quotes.

    Returns:
        The reply; None where no example shows how such a call is answered.
    """
    if call.document is None:
        return None
    forms = _forms(tuple(cases(call.action)))
    asked = tuple(as_text(value) for _, value in call.arguments)
    fitting = [(one, keys) for one in forms if (keys := _keys(one, asked)) is not None]
    if not fitting:
        return None
    found = dict.fromkeys(_read(fitting, call.document.text))
    answers = list(dict.fromkeys(answer for answer, _ in found))
    quotes = "".join(f"\n> {statement}" for statement in dict.fromkeys(line for _, line in found))
    match call.action.returns:
        case "list":
            return json.dumps(answers, ensure_ascii=False) + quotes
        case "bool":
            return ("yes" if found else "no") + quotes
        case "text" | "any" | "number" if answers:
            return ", ".join(answers) + quotes
        case _:
            return None


def cases(action: Action) -> Iterator[Case]:
    """Those of an action's examples that show a text in the document's place."""
    places = [at for at, param in enumerate(action.params) if param.name == DOCUMENT]
    if not isinstance(action.body, Prompt) or len(places) != 1:
        return
    for shown in action.body.examples:
        args = [as_text(arg.value) for arg in shown.args if isinstance(arg, Literal)]
        if len(args) != len(action.params):
            continue
        text = args.pop(places[0])
        answer = shown.answer
        if isinstance(answer, bool):
            yield Case(text, tuple(args), (), answer)
        else:
            items = answer if isinstance(answer, list) else [answer]
            yield Case(text, tuple(args), tuple(map(as_text, items)), bool(items))


def statements(text: str) -> list[str]:
    """A text's statements, to the letter but for their spaces.

    Each ends with its line or at a full stop, whatever letter comes next.
    """
    found = (one for line in text.splitlines() for one in _of_line(line))
    return [one for one in found if one and len(one) <= LONGEST]


def _of_line(line: str) -> Iterator[str]:
    start = 0
    for end in _ENDS.finditer(line):
        # Only the last word counts, and the rest may be long.
        before = line[max(start, end.start() - 8) : end.start()]
        if line[end.end() : end.end() + 1].islower() or not _SHORTENED.search(before):
            yield " ".join(line[start : end.start()].split())
            start = end.end()
    yield " ".join(line[start:].split())


@lru_cache(maxsize=256)
def _forms(shown: tuple[Case, ...]) -> tuple[Form, ...]:
    """Forms of statements, those that fix the most first.

    One that finds what an example does not have for its answer is left out.
    """
    made = {one: None for case in shown if case.holds for one in _of_case(case)}
    forms = sorted(made, key=lambda one: -one.size)
    while True:
        wrong = next((bad for case in shown for bad in _misread(forms, case)), None)
        if wrong is None:
            return tuple(forms)
        forms.remove(wrong)


def _of_case(case: Case) -> Iterator[Form]:
    for statement in statements(case.text):
        bare = _bare(statement)
        keys = [_keys_in(bare, one) for one in case.asked]
        if not all(keys) or not keys:
            continue
        flat = [key for one in keys for key in one]
        for answer in case.answers or ("",):
            if answer in flat or (answer and not holds(bare, answer)):
                continue
            yield _form(case.asked, keys, bare, answer)


def _keys_in(statement: str, argument: str) -> list[str]:
    """What of an argument a statement has: all of it, or what it names."""
    if holds(statement, argument):
        return [argument]
    found = (one for one in named(argument) if naming(one, argument) and holds(statement, one))
    return outermost(found)


def _form(asked: Sequence[str], keys: Sequence[list[str]], statement: str, answer: str) -> Form:
    flat = [key for one in keys for key in one]
    slots = outermost([*flat, *([answer] if answer else [])])
    rest = statement
    for slot in slots:
        rest = rest.replace(slot, " ")
    marks = _MARKS & set(rest)
    line, order = form(statement, slots, lambda word: _takes(word, marks))
    calls: list[re.Pattern[str]] = []
    numbered: dict[str, int] = {}
    for argument, own in zip(asked, keys, strict=True):
        pattern, places = form(" ".join(argument.split()), own)
        calls.append(pattern)
        for key in places:
            # A key that two arguments have is known by the first.
            numbered.setdefault(key, len(numbered))
    return Form(
        tuple(calls),
        re.compile(line.pattern, re.IGNORECASE),
        tuple(numbered.get(one, -1) for one in order),
        len(rest.replace(" ", "")),
    )


def _takes(word: str, marks: frozenset[str]) -> Takes:
    """What may stand in a slot: a number for a number, else no mark that parts the statement."""
    if _NUMBER.fullmatch(word):
        return _NUMERIC
    kept = "".join(re.escape(one) for one in sorted(marks - set(word)))
    return Takes(rf"[^\s{kept}]", f"[^{kept}]") if kept else Takes()


def _keys(one: Form, asked: Sequence[str]) -> tuple[str, ...] | None:
    """What stands in a call for the form's keys; None where the call is put otherwise."""
    if len(one.call) != len(asked):
        return None
    found: list[str] = []
    for pattern, argument in zip(one.call, asked, strict=True):
        fits = pattern.fullmatch(" ".join(argument.split()))
        if not fits:
            return None
        found += fits.groups()
    return tuple(map(_folded, found))


def _read(fitting: Sequence[tuple[Form, tuple[str, ...]]], text: str) -> Iterator[tuple[str, str]]:
    """Answers, each with the statement that has it."""
    for one, keys, fits, statement in _matches(fitting, text):
        groups = list(zip(one.keys, fits.groups(), strict=True))
        if all(_folded(told) == keys[at] for at, told in groups if at >= 0):
            yield next((told for at, told in groups if at < 0), ""), statement


def _matches(
    fitting: Sequence[tuple[Form, tuple[str, ...]]], text: str
) -> Iterator[tuple[Form, tuple[str, ...], re.Match[str], str]]:
    """Each statement read by the form that fixes the most of it."""
    for statement in statements(text):
        bare = _bare(statement)
        for one, keys in fitting:
            if fits := one.line.fullmatch(bare):
                yield one, keys, fits, statement
                break


def _misread(forms: Sequence[Form], case: Case) -> Iterator[Form]:
    """Forms that find in an example what is not its answer."""
    fitting = [(one, keys) for one in forms if (keys := _keys(one, case.asked)) is not None]
    for pair in fitting:
        for answer, _ in _read([pair], case.text):
            if (answer not in case.answers) if case.answers else not case.holds:
                yield pair[0]
                break


def _bare(statement: str) -> str:
    return statement.rstrip(".!?。！？ ")


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
