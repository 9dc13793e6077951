"""Constrained decoding: the grammar or schema of each call's reply, and how endpoints take it.

A reply that is a plan or a step is constrained by a grammar of its library, a JSON object by a
schema. Endpoints take constraints in different fields, and silently ignore fields that they do not
know, so only an answer proves that a constraint is obeyed. An endpoint is therefore asked once for
a random word, in one form after another, and the form that it obeys is remembered.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from pearl.lang.ast import by_number
from pearl.lang.errors import InputError
from pearl.lang.output_files import cache_folder, lock, replacing
from pearl.lang.parser import parse, parse_known
from pearl.lang.printer import print_plan
from pearl.lang.text import text_digest
from pearl.lint.rules.base import PlanView
from pearl.models.base import Constraint, Kind, ModelError
from pearl.prompts import calls

Mode: TypeAlias = Literal["auto", "always", "never"]
"""``auto`` constrains where the endpoint takes it, ``always`` ends with an error where it does
not, ``never`` asks for plain text."""

GRAMMARS = ("grammar", "structured_outputs", "guided_grammar", "ebnf", "custom_tool")
"""Forms of grammars, named after their field: llama.cpp's, vLLM's from 0.12 on and before,
SGLang's, and OpenAI's custom tool."""

SCHEMAS = ("json_schema", "json_schema_strict")
"""Forms of JSON schemas: whole, and only with those keywords that OpenAI's strict mode takes."""

KNOWN_FOR = 7 * 86400.0
"""Seconds for which it is remembered what an endpoint takes, as its server may be replaced."""

LOCKED_FOR = 2.0
"""The most seconds to wait while another process writes the file of what endpoints take."""

LONGEST_TEXT = 2000
"""The most characters of a text in a JSON reply; llama.cpp counts no further."""

_LOOSE = frozenset(
    ("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minimum", "maximum")
)
"""Keywords that OpenAI's strict mode has refused; replies are checked for them all the same."""


def choose_mode(mode: str | None = None) -> Mode:
    """The mode that a person named, or else what ``PEARL_CONSTRAIN`` says, or else ``auto``; an
    `InputError` where there is no such mode."""
    named = mode or os.environ.get("PEARL_CONSTRAIN", "").strip() or "auto"
    if named in get_args(Mode):
        return cast(Mode, named)
    name = "constrain" if mode else "PEARL_CONSTRAIN"
    raise InputError(f"{name} is wrong: it is to be auto, always or never.")


# --- what a call is held to ---


def constraints_of(call: calls.Call, room: int | None = None) -> tuple[Constraint, ...]:
    """The constraints that the reply to a call may have, the narrowest first; none for free text.

    Args:
        call: what is asked.
        room: the most tokens of the reply, which bounds plans and steps; None for no limit.
    """
    from pearl.lang.context_free import Grammar
    from pearl.lang.plan_grammar import plan_grammar, step_grammar

    match call:
        case calls.WritePlan():
            fits = _characters(call, room)
            return (Constraint(plan_grammar(call.library, room=fits, sources=call.sources)),)
        case calls.NextStep():
            view = PlanView(parse("\n".join(step for step, _ in call.steps)), call.library)
            names = {step.name: view.type_of(at) for at, step in enumerate(view.plan.steps)}
            fits = _characters(call, room)
            return (Constraint(step_grammar(call.library, names, room=fits)),)
        case calls.CorrectPlan() | calls.RefinePlan():
            return constraints_of(call.write, room)
        case calls.MapAnswer():
            named = [calls.letter(at) for at in range(len(call.options))]
            named += [] if call.best else ["none"]
            return (Constraint(Grammar((("start", tuple((name,) for name in named)),))),)
        case calls.FillSchema():
            asked = call.schema.fields
            fields = {field.name: json.loads(field.within or field.schema) for field in asked}
            text = json.dumps(_closed(object_schema(fields)), ensure_ascii=False)
            schema = Constraint(schema=text)
            return (Constraint(call.grammar), schema) if call.grammar else (schema,)
        case calls.CorrectFilled():
            return constraints_of(call.fill)
        case calls.ProveForm(form, word) if form in SCHEMAS:
            # Only an endpoint that takes the form obeys a constraint to one word.
            only = {"type": "string", "enum": [word], "maxLength": len(word)}
            text = json.dumps(_closed(object_schema({"word": only})))
            return (Constraint(schema=text, form=form),)
        case calls.ProveForm(form, word):
            return (Constraint(Grammar((("start", ((word,),)),)), form=form),)
        case _:
            return ()


def _characters(call: calls.WritePlan | calls.NextStep, room: int | None) -> int | None:
    """The number of characters that surely fit ``room`` tokens: a token holds a byte or more.

    The bytes of a character are taken from the question, as its plan has the same script.
    """
    if room is None:
        return None
    question = call.question or " "
    return room * len(question) // len(question.encode("utf-8", "replace"))


def object_schema(fields: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object that has all of these fields, each of its own schema."""
    return {"type": "object", "properties": fields, "required": [*fields]}


def _closed(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """The schema with no further fields allowed in its objects, and with bounded texts."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "string" and not schema.keys() & {"enum", "const", "maxLength"}:
        # A small model may repeat itself until the text has to end.
        return {**schema, "maxLength": LONGEST_TEXT}
    closed = {name: _closed(part) for name, part in schema.items()}
    return closed | {"additionalProperties": False} if "properties" in closed else closed


def held(call: calls.Call) -> calls.Call:
    """The call with a prompt that explains the constraint, and demonstrations that obey it."""
    match call:
        case calls.WritePlan():
            return _held(call)
        case calls.CorrectPlan(write=calls.WritePlan() as write) | calls.RefinePlan(write=write):
            return replace(call, write=_held(write))
        case _:
            return call


def _held(write: calls.WritePlan) -> calls.WritePlan:
    plans = [(demo, parse_known(demo.plan).plan) for demo in write.demonstrations]
    # A constrained plan cannot declare actions, so demonstrations that do are left out.
    shown = tuple(
        replace(demo, plan=print_plan(by_number(plan)).strip())
        for demo, plan in plans
        if not plan.declares
    )
    return replace(write, demonstrations=shown, held=True)


# --- how chat completions carry it ---


def request_fields(constraint: Constraint) -> dict[str, Any]:
    """The fields of a chat completion's request that constrain the reply, in a form that is in
    `GRAMMARS` or `SCHEMAS`."""
    grammar, form = constraint.grammar, constraint.form
    if grammar is None:
        schema = json.loads(constraint.schema)
        schema = _without(schema, _LOOSE if form == "json_schema_strict" else frozenset())
        named = {"name": "reply", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    match form:
        case "structured_outputs":
            return {form: {"grammar": grammar.ebnf}}
        case "guided_grammar" | "ebnf":
            return {form: grammar.ebnf}
        case "custom_tool":
            lark = {"syntax": "lark", "definition": grammar.lark}
            tool = {
                "name": "reply",
                "description": "Takes the whole reply.",
                "format": {"type": "grammar", "grammar": lark},
            }
            choice = {"type": "custom", "custom": {"name": "reply"}}
            return {"tools": [{"type": "custom", "custom": tool}], "tool_choice": choice}
        case _:
            return {"grammar": grammar.gbnf}


def _without(schema: Any, keywords: frozenset[str]) -> Any:  # noqa: ANN401 - any JSON
    """A schema without some keywords, and without patterns that are not anchored at both ends.

    Decoders apply such a pattern to the whole text (xgrammar), or refuse it (llama.cpp).
    """
    if isinstance(schema, list):
        return [_without(part, keywords) for part in schema]
    if not isinstance(schema, dict):
        return schema
    named = schema.get("properties")
    rest = {name: _without(part, keywords) for name, part in schema.items() if name not in keywords}
    if not re.fullmatch(r"\^.*\$", str(rest.get("pattern", "^$")), re.DOTALL):
        del rest["pattern"]
    if isinstance(named, dict):
        # A field may have the name of a keyword.
        rest["properties"] = {name: _without(part, keywords) for name, part in named.items()}
    return rest


# --- what an endpoint takes ---

Prove: TypeAlias = Callable[[calls.ProveForm], Awaitable[str | None]]
"""Asks for a word in a form, and gives the reply; empty where the form was refused, None where the
call failed for another reason and proves nothing."""

Room: TypeAlias = Callable[[Sequence[calls.Message]], int | None]
"""Gives the most tokens of the reply to a prompt; None where nothing bounds it."""


def forms_taken(model: object) -> Forms:
    """The forms in which a model takes constraints; none where it has no attribute ``forms``."""
    forms = getattr(model, "forms", None)
    return forms if isinstance(forms, Forms) else Forms("", (), ())


class Forms:
    """The forms in which a model takes constraints: asked once, and remembered across processes.

    Args:
        endpoint: everything that decides which forms it takes; only its hash is stored. If it is
            empty, nothing is remembered.
        grammars: forms of grammars to try, in order.
        schemas: forms of schemas to try, in order.
        forms: forms that are known already, by kind; an empty one for a kind that is not taken.
        room: gives the most tokens of the reply to a prompt; None where nothing bounds it.
    """

    def __init__(
        self,
        endpoint: str = "",
        grammars: Sequence[str] = GRAMMARS,
        schemas: Sequence[str] = SCHEMAS,
        forms: Mapping[Kind, str] | None = None,
        room: Room = lambda _: None,
    ) -> None:
        self.notice = ""
        self.room = room
        self._endpoint = text_digest(endpoint) if endpoint else ""
        self._candidates: dict[Kind, Sequence[str]] = {"grammar": grammars, "schema": schemas}
        self._known: dict[Kind, str] = dict(forms or {})
        self._flights: dict[Kind, asyncio.Future[None]] = {}
        self._broke: Counter[str] = Counter()
        """How often the endpoint failed at a form."""

    @property
    def any(self) -> bool:
        """Whether the model may take any form."""
        return any((*self._candidates.values(), *self._known.values()))

    @property
    def to_ask(self) -> int:
        """The most calls that it takes to find out what is not known yet."""
        known = {*self._remembered(), *self._known}
        return sum(len(forms) for kind, forms in self._candidates.items() if kind not in known)

    async def form_of(self, kind: Kind, prove: Prove, *, anew: bool = False) -> str:
        """The form in which constraints of a kind are taken; empty for none.

        Args:
            kind: the kind of the constraint.
            prove: asks the endpoint.
            anew: whether to ask again where it is remembered that no form is taken.

        Raises:
            ModelError: the endpoint cannot be asked anything, or failed just now.
        """
        loop = asyncio.get_running_loop()
        if anew and self._endpoint and self._known.get(kind) == "":
            del self._known[kind]
        while kind not in self._known:
            flight = self._flights.get(kind)
            if flight is not None and flight.get_loop() is loop:
                await asyncio.wait([flight])
                if not flight.cancelled() and isinstance(error := flight.exception(), ModelError):
                    raise error.again()
                continue
            flight = self._flights[kind] = loop.create_future()
            try:
                remembered = self._remembered().get(kind)
                if remembered is None or (anew and not remembered):
                    remembered = await self._proven(kind, prove, every=anew)
                    self._remember(kind, remembered)
                self._known[kind] = remembered or ""
            except ModelError as error:
                flight.set_exception(error)
                flight.exception()  # Marked as seen: perhaps nobody else waits for it.
                raise
            finally:
                if self._flights.get(kind) is flight:
                    # Another event loop may have asked meanwhile.
                    del self._flights[kind]
                if not flight.done():
                    flight.cancel()
        return self._known[kind]

    def none_taken(self, kind: Kind) -> None:
        """Say in the notice that replies are not constrained, as no form of a kind is taken."""
        self.notice = self.notice or (
            f"Short test calls, made once a week, found no {kind} that the endpoint keeps replies "
            "to: they are checked instead, and sent back where they are wrong (--constrain never "
            "makes no such calls)."
        )

    def refuse(self, kind: Kind) -> None:
        """Forget the form of a kind, which the endpoint refuses now, and say so in the notice."""
        self.notice = (
            f"The endpoint refused a {kind} that it was to keep replies to: they are checked "
            "instead, and sent back where they are wrong."
        )
        self._known[kind] = ""
        self._remember(kind, None)

    async def _proven(self, kind: Kind, prove: Prove, *, every: bool) -> str | None:
        """The form that is taken; empty for none, None where that cannot be told now.

        A failure of the endpoint is raised, unless ``every`` form is to be tried at once. A form
        with which the endpoint failed twice may be the cause, and is not tried again.
        """
        none: str | None = ""
        for form in self._candidates[kind]:
            # A cached reply would prove nothing, so each word is a new one.
            word = f"heliotrope-{secrets.token_hex(4)}"
            if not every and self._broke[form] >= 2:
                none = None
                continue
            try:
                reply = await prove(calls.ProveForm(form, word))
            except ModelError as error:
                if error.reason != "server":
                    raise
                self._broke[form] += 1
                if not every:
                    raise
                none = None
                continue
            if reply is None:
                # Other forms would fail too, for instance where there is no such model.
                return None
            answer = reply.strip()
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                answer = answer if kind == "grammar" else json.loads(answer)["word"]
            if answer == word:
                return form
        return none

    def _remembered(self) -> dict[str, str]:
        entry = _read().get(self._endpoint) if self._endpoint else None
        if not isinstance(entry, dict):
            return {}
        proven_at = entry.get("asked")
        if not isinstance(proven_at, int | float) or not time.time() - proven_at < KNOWN_FOR:
            return {}
        candidates = self._candidates.items()
        return {kind: entry[kind] for kind, forms in candidates if entry.get(kind) in ("", *forms)}

    def _remember(self, kind: Kind, form: str | None) -> None:
        """Store the form in which a kind is taken; None removes it."""
        if not self._endpoint:
            return
        with suppress(OSError, RuntimeError):
            # RuntimeError: a process may have no home at all. It asks again then.
            path = _file()
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.with_suffix(".lock").open("ab") as taken:
                # Without the lock, one of two processes would overwrite what the other wrote.
                give_up = time.monotonic() + LOCKED_FOR
                while lock(taken) is False and time.monotonic() < give_up:
                    time.sleep(0.005)
                entry = {**self._remembered(), "asked": time.time(), kind: form}
                entry = {key: data for key, data in entry.items() if data is not None}
                text = json.dumps({**_read(), self._endpoint: entry}, indent=1)
                with replacing(path) as file:
                    file.write(text.encode())


def _file() -> Path:
    return cache_folder() / "constraints.json"


def _read() -> dict[str, Any]:
    try:
        data = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):
        # RuntimeError: it is nested too deeply, or there is no home.
        return {}
    return data if isinstance(data, dict) else {}
