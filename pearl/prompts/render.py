"""Renders a call as messages. Nothing else in Pearl writes prompts.

Whatever a document, a person or a model wrote enters as delimited data: in a
block whose closing tag does not occur in it. The templates stand beside this
file, one for each kind of call; the schemas of structured output are in
``schemas/``, one a file.
"""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache, lru_cache
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any

from pearl.lang.ast import DOCUMENT, Action, Prompt
from pearl.lang.library import Library
from pearl.lang.printer import print_arg, print_value
from pearl.lang.source import START, Source
from pearl.lang.text import normalized
from pearl.lang.values import as_text, from_json
from pearl.prompts import calls

if TYPE_CHECKING:
    from jinja2 import Environment, Template


_UNSEEN = re.compile(
    "[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
"""Characters that are not visible, and that a model may ignore."""

RETURNS = {
    "text": "Answer in plain text: in a sentence or two where one thing is asked for, and with "
    "every one of them where several are. If the sources do not say, say so.",
    "any": "Answer in plain text. If the sources do not say, say so.",
    "list": "Answer with a JSON array on the first line that has every item as a text, and nothing "
    "else on that line. If there is none, answer [].",
    "number": "Answer with one number on the first line, in digits, and nothing else there. If "
    "the sources do not say, write unknown there.",
    "bool": "Answer with yes or no on the first line, and nothing else there. If the sources do "
    "not say, answer no.",
    "pairs": 'Answer with {"pairs": [[key, value], …]} as JSON on the first line, and nothing '
    "else there.",
}

KNOWN = "Answer in plain text. If you do not know, say so."
"""In place of `RETURNS`, for an action with the trait ``knowledge``."""

COPIED = "Answer with what you copy and nothing else. If the sources have no such passage, say so."
"""In place of `RETURNS`, for an action with the trait ``verbatim`` that returns a text."""

SHOWN = "Answer in the form of the answers above, and with nothing else."
"""In place of all of these, for an action that has examples."""


def render(call: calls.Call) -> tuple[calls.Message, ...]:
    """The messages of a call; equal calls give equal messages."""
    match call:
        case calls.WritePlan():
            actions = _listing(call.library, call.listed)
            answers = any(action.name == "ANSWER_FROM" for action in actions)
            return _messages("write_plan", call=call, actions=actions, answers=answers)
        case calls.NextStep():
            actions = _listing(call.library, call.listed)
            reads = any(param.name == DOCUMENT for action in actions for param in action.params)
            return _messages("next_step", call=call, actions=actions, reads=reads)
        case calls.CorrectPlan():
            return _follow_up(call.write, call.reply, "correct_plan", call)
        case calls.ContinuePlan():
            return _follow_up(call.write, call.begun, "continue_plan", call)
        case calls.ExecuteStep():
            action = call.action
            return _messages(
                "execute_step",
                action=action,
                note=call.step.note,
                task=calls.STEP_TASK,
                document=document_block(call.document) if call.document else None,
                arguments=_written(call),
                named={f"[{name}]" for name, _, _ in call.outputs},
                outputs=[(name, as_text(value), step) for name, value, step in call.outputs],
                examples=_examples(action),
                returns=_form(action),
                knows="knowledge" in action.traits,
                many=action.returns in ("list", "pairs"),
                verbatim="verbatim" in action.traits,
                omitted=_percent(call.omitted) if call.omitted else "",
            )
        case calls.CorrectStep(step=step):
            quotes = step.document and "verbatim" not in step.action.traits
            words = {"refused": calls.REFUSED, "returns": _form(step.action), "quotes": quotes}
            return _follow_up(step, call.reply, "correct_step", call, **words)
        case calls.MapAnswer():
            options = [(calls.letter(at), option) for at, option in enumerate(call.options)]
            return _messages("map_answer", call=call, options=options)
        case calls.MineActions():
            return _messages("mine_actions", call=call, actions=_listing(call.library))
        case calls.CondenseActions():
            return _messages("condense_actions", call=call)
        case calls.RefinePlan():
            return _follow_up(call.write, call.plan, "refine_plan", call)
        case calls.LabelQuestion():
            return _messages("label_question", call=call)
        case calls.FillSchema():
            return _conversation(call)
        case calls.CorrectFilled():
            return _follow_up(call.fill, call.reply, "correct_filled", call)
        case calls.ProveForm():
            return _messages("prove_form")
        case calls.OwnPrompt():
            system: calls.Message = {"role": "system", "content": call.system}
            user: calls.Message = {"role": "user", "content": call.text}
            return (system, user) if call.system else (user,)


@lru_cache(maxsize=32)
def document_block(document: Source) -> str:
    """A document as delimited data, which opens the prompt of every step that reads it.

    It is cached, because looking for tags in a long text at every step would
    cost as much as the rest of the prompt.
    """
    return fenced("document", document.text.replace(START, ""))


def fenced(name: str, text: str) -> str:
    """Text as data: between tags of this name, with a number if the text has such a tag itself.

    So does whatever a model might take for the tag: in another case, with
    spaces, with other brackets, in full-width letters, or with invisible
    characters in it.
    """
    haystack = text if text.isascii() else f"{text}\n{normalized(_UNSEEN.sub('', text), 'NFKC')}"
    used = {match[1] or "" for match in _tags(name).finditer(haystack)}
    number = next(at for at in count(2) if str(at) not in used) if used else 0
    tag = f"{name}-{number}" if number else name
    return f"<{tag}>\n{text}\n</{tag}>"


@lru_cache(maxsize=256)
def _tags(name: str) -> re.Pattern[str]:
    """A pattern of what a model might take for a tag of a name."""
    return re.compile(rf"[<＜‹〈⟨]\W{{0,8}}{re.escape(name)}(?!\w)(?:-(\d{{1,9}}))?", re.IGNORECASE)


def _follow_up(
    before: calls.Call,
    reply: str,
    name: str,
    call: calls.Call,
    **values: Any,  # noqa: ANN401 - template values
) -> tuple[calls.Message, ...]:
    """The messages of an earlier call, its reply, and the call that follows up on it."""
    return (
        *render(before),
        {"role": "assistant", "content": reply},
        {"role": "user", "content": _blocks(name, "user", call=call, **values)[0]},
    )


def _conversation(call: calls.FillSchema) -> tuple[calls.Message, ...]:
    """A call after the earlier ones of its conversation; a repeated schema is shortened."""
    messages: list[calls.Message] = []
    named: list[calls.Schema] = []
    for turn, reply in (*call.turns, (call, "")):
        inputs = [(name, as_text(value)) for name, value in turn.given]
        names = {name for name, _ in inputs} | ({"no_document"} if turn.document is None else set())
        system, user = _messages(
            "fill_schema",
            call=turn,
            again=turn.schema in named,
            document=document_block(turn.document) if turn.document else None,
            given=inputs,
            told=[words for name, words in turn.schema.told if name in names],
        )
        messages += [user] if messages else [system, user]
        messages += [{"role": "assistant", "content": reply}] if turn is not call else []
        named.append(turn.schema)
    return tuple(messages)


def _messages(name: str, **values: Any) -> tuple[calls.Message, ...]:  # noqa: ANN401 - template values
    system, user = _blocks(name, "system", "user", **values)
    return {"role": "system", "content": system}, {"role": "user", "content": user}


def _blocks(name: str, *blocks: str, **values: Any) -> list[str]:  # noqa: ANN401 - template values
    template = _template(name)
    # Shared, so that Jinja's globals, which no template uses, are not copied for each prompt.
    context = template.new_context(values, shared=True)
    return [_stripped([*template.blocks[block](context)]) for block in blocks]


def _stripped(pieces: list[str]) -> str:
    """The pieces of a text joined, without white space around it. Its end is stripped before, so
    that a long document is not copied twice."""
    while pieces and not (last := pieces[-1].rstrip()):
        pieces.pop()
    if pieces:
        pieces[-1] = last
    return "".join(pieces).lstrip()


@cache
def _template(name: str) -> Template:
    return _environment().get_template(f"{name}.jinja")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = files("pearl.prompts")
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Prompts are plain text; data is delimited by `fenced`, not by HTML escapes.
        autoescape=False,  # noqa: S701
    )
    environment.filters["literal"] = print_value
    environment.filters["fenced"] = lambda text, name: fenced(name, text)
    environment.filters["offered"] = _offered
    return environment


def _form(action: Action) -> str:
    """The sentences that say which form the answer of an action is to have."""
    if isinstance(action.body, Prompt) and action.body.examples:
        return SHOWN
    knows = "knowledge" in action.traits
    if knows and action.returns in ("text", "any"):
        return KNOWN
    if "verbatim" in action.traits and action.returns == "text":
        return COPIED
    form = RETURNS[action.returns]
    return form.replace("the sources do not say", "you do not know") if knows else form


def _examples(action: Action) -> list[tuple[str, str]]:
    """An action's examples: the arguments as written, and the answer as the model is to give it."""
    if not isinstance(action.body, Prompt):
        return []
    return [
        (
            ", ".join(map(print_arg, item.args)),
            print_value(item.answer) if isinstance(item.answer, list) else as_text(item.answer),
        )
        for item in action.body.examples
    ]


def _written(call: calls.ExecuteStep) -> list[tuple[str, str]]:
    """The names and texts of a step's arguments, written as in the action's examples, if any."""
    plain = [as_text(value) for _, value in call.arguments]
    texts = call.written or plain
    if isinstance(call.action.body, Prompt) and call.action.body.examples:
        # Values are quoted as in the examples; an output that is named in brackets stays so.
        texts = [
            print_value(value) if text == same else text
            for (_, value), text, same in zip(call.arguments, texts, plain, strict=True)
        ]
    return [(name, text) for (name, _), text in zip(call.arguments, texts, strict=True)]


def _percent(share: float) -> str:
    """A share in words, which are never 0 % or 100 %."""
    percent = round(100 * share)
    if percent in (0, 100):
        return "less than 1 %" if percent == 0 else "more than 99 %"
    return f"about {percent} %"


def _offered(action: Action) -> str:
    """An action as one line: its call, its type unless that is text, and its definition."""
    arrow = "" if action.returns == "text" else f" -> {action.returns}"
    return f"{action.signature}{arrow} : {action.doc}"


def _listing(library: Library, names: frozenset[str] = frozenset()) -> list[Action]:
    """The actions with some names, or all, as the planner sees them: those that read the document
    come first."""
    listed = [action for action in library.listed if action.name in names] or library.listed
    return sorted(listed, key=lambda action: all(p.name != DOCUMENT for p in action.params))


@cache
def load_schema(*names: str) -> calls.Schema:
    """A schema that ships with Pearl, or several as one.

    Its file has ``task``, and ``[fields.NAME]`` with ``about`` and the JSON
    schema of the field's values. It may have ``[[examples]]`` with ``given`` and
    ``reply``: a reply may have more than the fields, for schemas that are
    combined with this one, and a field that it lacks is null. ``plans``,
    ``found`` and ``[told]`` are as in `pearl.prompts.calls.Schema`.

    Args:
        names: the files' names without their ending; the first one's examples are shown.

    Raises:
        FileNotFoundError: there is no such file.
    """
    places = [files("pearl.prompts") / "schemas" / f"{name}.toml" for name in names]
    data, *others = [tomllib.loads(place.read_text(encoding="utf-8")) for place in places]
    fields = tuple(
        calls.Field(field, schema.pop("about"), _json(schema))
        for each in (data, *others)
        for field, schema in each["fields"].items()
    )
    examples = tuple(
        (
            tuple((key, as_text(from_json(value))) for key, value in example["given"].items()),
            _json({field.name: example["reply"].get(field.name) for field in fields}),
        )
        for example in data.get("examples", ())
    )
    task = " ".join(each["task"].strip() for each in (data, *others))
    plans, found = data.get("plans", False), data.get("found", "")
    told = tuple(data.get("told", {}).items())
    return calls.Schema("_with_".join(names), task, fields, examples, plans, told, found)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
