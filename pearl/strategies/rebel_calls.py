"""REBEL's calls of a model, how a plan writes a tool's input, and which questions are the same.

Replies of tools are untrusted: the model sees them when it fills in an input,
reads an answer or weighs facts, but which sub-questions are asked, and of
which tool, it decides from questions alone.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from struct import pack, unpack
from typing import Any, NamedTuple, TypeAlias
from typing import Literal as OneOf

from pearl.lang.ast import Arg, Literal, Ref, Template, listed, woven
from pearl.lang.text import one_line
from pearl.lang.values import Value, as_text, canonical_json, from_json
from pearl.models.base import Ask, Reply, Request
from pearl.models.embeddings import Embed, OpenAIEmbedding, cosine
from pearl.models.middleware.cache import ReplyCache
from pearl.models.middleware.stack import start_engine
from pearl.prompts.calls import Field, FillSchema, Schema
from pearl.prompts.render import load_schema
from pearl.runtime.calls import Caller, Journal
from pearl.tools.toolbox import Tool

NO_TOOL = "none"
"""The name with which the model chooses no tool."""

INPUT = "rebel_input"
"""The name of every schema that is made from a tool's parameters."""


def filled_from(schema: str, **fields: Value) -> FillSchema:
    """A call that fills a schema of ``prompts/schemas``; the prompt shows the fields in order."""
    return FillSchema(load_schema(schema), tuple(fields.items()))


def split_of(question: str, tools: Mapping[str, Tool], answered: Sequence[str]) -> FillSchema:
    """Asks for the parts of a question that these tools, or known facts, can answer."""
    statements: list[Value] = list(answered)
    return filled_from("rebel_split", question=question, tools=_listing(tools), answered=statements)


def choice_of_tool(question: str, tools: Mapping[str, Tool]) -> FillSchema:
    """Asks for the name of one of these tools, or `NO_TOOL`."""
    schema = load_schema("rebel_tool")
    names = json.dumps({"enum": [*tools, NO_TOOL]}, ensure_ascii=False)
    schema = replace(schema, fields=(replace(schema.fields[0], schema=names),))
    return FillSchema(schema, (("question", question), ("tools", _listing(tools))))


def _listing(tools: Mapping[str, Tool]) -> str:
    return "\n".join(f"{name}: {flat(tool.about)}" for name, tool in tools.items()) or NO_TOOL


def tool_input(
    tool: Tool,
    question: str,
    facts: Sequence[str],
    refused: Sequence[tuple[Mapping[str, Any], str]],
) -> FillSchema:
    """Asks for the input that a tool is called with.

    Args:
        tool: the tool.
        question: the question that its reply is to answer.
        facts: known facts, which may name what the question only describes.
        refused: inputs that the tool refused, each with what is wrong with it.
    """
    values: dict[str, Value] = {"question": question}
    if facts:
        values["facts"] = list(facts)
    values["tool"] = f"{tool.name}: {flat(tool.about)}"
    if tool.examples:
        values["examples"] = [f"{flat(example)} -> {filled}" for example, filled in tool.examples]
    if refused:
        values["refused"] = [f"{canonical_json(dict(wrong))} {flat(why)}" for wrong, why in refused]
    return FillSchema(input_schema(tool), tuple(values.items()))


_TOLD = (
    (
        "facts",
        'What the question only describes may be named under "facts": then write the name.',
    ),
    (
        "examples",
        'Under "examples" stand other questions, each with parameters that were right for it.',
    ),
    ("refused", 'What is under "refused" was not taken: give an input that mends what is wrong.'),
)


def input_schema(tool: Tool) -> Schema:
    """The schema of a call's arguments, in which an optional parameter may be null."""
    fields = []
    for parameter in tool.parameters:
        about, schema = parameter.about, parameter.schema
        if not parameter.required:
            about = f"{about}; null to leave it out"
            either = {"anyOf": [json.loads(schema), {"type": "null"}]}
            schema = json.dumps(either, ensure_ascii=False)
        fields.append(Field(parameter.name, about, schema))
    task = (
        "A tool is about to be called to answer the question. Fill in its parameters, so that its "
        "reply holds the answer."
    )
    return Schema(INPUT, task, tuple(fields), plans=True, told=_TOLD)


def wrong_input(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with a call's arguments that schemas do not catch, a sentence each."""
    parameters = {parameter.name for parameter in tool.parameters}
    unknown = [name for name in arguments if name not in parameters]
    wrong = [f"{name}: the tool has no such parameter." for name in unknown]
    for name in (name for name in arguments if name in parameters):
        try:
            json.dumps(arguments[name], ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            wrong.append(f"{name}: it holds a number or a character that cannot be sent.")
    return wrong


def flat(text: str) -> str:
    """A text in one line, so that a tool's reply cannot pass for several facts."""
    return one_line(text.encode("utf-8", "replace").decode("utf-8"))


# --- a tool's input, as a plan writes it ---


def written_input(arguments: Mapping[str, Any], answers: Mapping[str, str]) -> Arg:
    """A call's arguments as a plan writes them: a list of names and values.

    Where an earlier answer occurs in a text, the plan refers to the step that gave it. If a value
    is an object, for which plans have no form, the arguments are one text of JSON.
    `pearl.tools.toolbox.arguments_of` reads both forms.

    Args:
        arguments: JSON values by name.
        answers: the earlier answers, by the names of their steps.
    """
    if not all(map(_plain, arguments.values())):
        return Literal(canonical_json(dict(arguments)))
    return listed(
        [listed([Literal(name), _written(value, answers)]) for name, value in arguments.items()]
    )


def _written(value: Any, answers: Mapping[str, str]) -> Arg:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return listed([_written(item, answers) for item in value])
    if not isinstance(value, str):
        return Literal(from_json(value))
    parts = woven(value, {answer: step for step, answer in answers.items() if len(answer) > 1})
    if not any(isinstance(part, Ref) for part in parts):
        return Literal(value)
    return parts[0] if isinstance(parts[0], Ref) and len(parts) == 1 else Template(parts)


def _plain(value: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return all(map(_plain, value))
    return isinstance(value, str | bool | int | float)


# --- which questions are the same ---

NEAR = 0.98
"""The cosine above which two questions are the same (section 3)."""


class Part(NamedTuple):
    """A sub-question, and whether it repeats a question that it should be a part of."""

    question: str
    again: bool = False


Why: TypeAlias = OneOf["parent", "answered", "width"]
"""Why a sub-question is not asked: it repeats its question, as all the others do (``parent``); it
was asked already (``answered``); or there are too many (``width``)."""


async def sift(
    written: Sequence[str], above: Sequence[str], answered: Sequence[str], width: int, embed: Embed
) -> tuple[list[Part], list[tuple[str, Why]]]:
    """Keep the sub-questions that help to answer a question (Algorithm 1).

    A sub-question that is nearer than `NEAR` to one of the questions above it
    repeats it: it is answered without being split again, and gives way to
    others where there are too many. If all of them repeat questions, none is
    kept, as they would be no easier to answer than the question itself.

    Args:
        written: the sub-questions, as the model wrote them.
        above: the questions they should be parts of; the last is the one that was split.
        answered: questions whose answers are known.
        width: the most sub-questions to keep.
        embed: gives the vectors that questions are compared by.

    Returns:
        The sub-questions to ask, and the others with the reasons, each in order.

    Raises:
        ModelError: the endpoint gave no vectors.
    """
    if not written:
        return [], []
    vectors = await embed([*above, *answered, *written])
    earlier, fresh = vectors[len(above) : -len(written)], vectors[-len(written) :]

    def near(vector: Sequence[float], others: Iterable[Sequence[float]]) -> bool:
        return any(cosine(vector, other) > NEAR for other in others)

    again = [near(vector, vectors[: len(above)]) for vector in fresh]
    chosen: list[int] = []
    dropped: dict[int, Why] = {}
    for at in sorted(range(len(written)), key=again.__getitem__):
        if near(fresh[at], earlier):
            dropped[at] = "answered"
        elif len(chosen) == width:
            dropped[at] = "width"
        else:
            chosen.append(at)
            earlier.append(fresh[at])
    if all(again[at] for at in chosen):
        dropped.update(dict.fromkeys(chosen, "parent"))
        chosen = []
    parts = [Part(written[at], again[at]) for at in sorted(chosen)]
    return parts, [(written[at], dropped[at]) for at in sorted(dropped)]


# --- embeddings of an endpoint as calls like any other: journaled, cached and retried ---

Embedding: TypeAlias = Callable[[Journal], Embed]
"""Gives an embedding whose calls are recorded in a journal."""

_TEXTS = Schema("embedding", "", ())


def embedding(embed: Embed, replies: ReplyCache | None) -> Embedding:
    """An endpoint's embedding with its calls journaled and its vectors cached among the replies;
    an embedding that is computed locally is returned unchanged.

    Raises:
        InputError: the settings of the environment cannot be used.
    """
    # Reading the identity checks the settings before anything is sent.
    identity = embed.identity
    if not isinstance(embed, OpenAIEmbedding):
        return lambda _: embed
    engine = start_engine(_AsModel(embed, embed.name, identity), replies)
    return lambda journal: _Journaled(engine.ask, identity, journal)


@dataclass(frozen=True, slots=True)
class _AsModel:
    """An endpoint's embedding as a model, so that the layers around models work for it."""

    embed: OpenAIEmbedding
    name: str
    identity: str
    notice: str = ""

    async def answer(self, request: Request) -> Reply:
        assert isinstance(request.call, FillSchema)
        [(_, texts)] = request.call.given
        assert isinstance(texts, list)
        vectors, usage = await self.embed.ask([as_text(text) for text in texts])
        # Endpoints compute in single precision, so four bytes a number lose nothing.
        rows = [b64encode(pack(f"<{len(row)}f", *row)).decode() for row in vectors]
        return Reply(json.dumps(rows), usage)

    async def close(self) -> None:
        """Do nothing, as nothing is open."""


@dataclass(frozen=True, slots=True)
class _Journaled:
    ask: Ask
    identity: str
    journal: Journal

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []

        async def ask(request: Request) -> Reply:
            reply = await self.ask(request)
            rows = map(b64decode, json.loads(reply.text))
            vectors.extend(list(unpack(f"<{len(row) // 4}f", row)) for row in rows)
            # People read journals; the numbers are in the cache.
            return replace(reply, text=f"{len(vectors)} vectors of {len(vectors[0])} numbers")

        call = FillSchema(_TEXTS, (("texts", list(texts)),))
        await Caller(ask, self.identity, self.journal)(call, "embedding")
        return vectors
