"""What a run asked, to the letter.

A journal has of each call its key, which is a hash of the whole prompt, and the reply. So the run
is made again on its own replies, and a prompt whose key is the journal's is what was sent. Where
the library, the document or Pearl's own words have changed since, keys differ, and nothing is
shown. Nothing is asked of anybody, and no function of a person's own is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pearl.answer import answer
from pearl.lang.ast import Function
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.source import InputError, Source
from pearl.models.base import ModelError, Reply, Request
from pearl.models.constraints import Mode
from pearl.models.middleware.stack import Engine
from pearl.models.recorded import Recorded
from pearl.prompts.calls import Message
from pearl.prompts.render import render
from pearl.runtime.calls import CONSTRAINED, Entry, Journal
from pearl.runtime.context import UNLIMITED, Context
from pearl.runtime.loop import RunError
from pearl.session import Session, planning_context
from pearl.strategies.registry import STRATEGIES, Prepared, prepare, prepare_plan


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as it was sent.

    Args:
        messages: their roles and texts; of the last one without the document.
        document: how many characters of the document, or of a part of it, the last one begins with.
    """

    messages: tuple[tuple[str, str], ...]
    document: int = 0


def read_prompts(
    entries: Sequence[Entry],
    identities: Sequence[str],
    head: Mapping[str, Any],
    options: Sequence[str],
    document: Source | None,
    library: Library | None,
) -> dict[str, Prompt]:
    """The prompts of a journal's calls by the calls' keys, as far as they can be made again.

    Args:
        entries: since the run was begun last, in order.
        identities: of the models that answered.
        head: what the journal says first of itself.
        options: what could be chosen from, where that is known.
        document: what was read; None where it is not at hand.
        library: the actions; None likewise.
    """
    own = library and any(isinstance(action.body, Function) for action in library.actions.values())
    if document is None or library is None or own:
        return {}
    calls = [entry for entry in entries if entry.kind == "call" and entry.status == "done"]
    replies = {call.call_key: call.value for call in calls if isinstance(call.value, str)}
    paths = {entry.path for entry in entries}
    mode: Mode = "auto" if any(path.endswith(f"/{CONSTRAINED}") for path in paths) else "never"
    if not options and "map" in paths:
        # There were some: what was asked before hangs on that, and not on which.
        options = ("", "")
    prompts: dict[str, Prompt] = {}
    for identity in identities:
        model = Recorded(replies, str(head.get("model", "")), identity)

        async def ask(request: Request, model: Recorded = model) -> Reply:
            if request.key in replies:
                prompts[request.key] = _prompt(request.messages, request.stable)
            elif request.plain in replies:
                prompts[request.plain] = _prompt(render(request.call), request.stable)
            return await model.answer(request)

        context = _context(entries)
        session = Session(
            Engine(ask, model, (), constrain=mode),
            Journal(),
            context,
            planning=planning_context(model, context),
        )
        # An event loop may run already in this thread, as in a notebook.
        with ThreadPoolExecutor(1) as pool:
            for prepared in _replays(entries, head, library):
                if prompts.keys() >= replies.keys():
                    break
                question = str(head.get("question", ""))
                replayed = answer(prepared, question, document, options, session)
                try:
                    pool.submit(asyncio.run, replayed).result()
                except (RunError, ModelError, InputError):
                    # It went another way than the run did: what was met until then is sound.
                    continue
    return prompts


def _replays(
    entries: Sequence[Entry], head: Mapping[str, Any], library: Library
) -> Iterator[Prepared]:
    """How the run may have gone: by its strategy, as that is prepared where nothing else is said;
    or by the steps that it came to, after all rewriting."""
    name = str(head.get("strategy") or head.get("method") or "pearl")
    # One that uses tools, or an embedding, might ask somebody for something.
    for spec in (spec for spec in STRATEGIES if spec.name == name and not spec.uses):
        with suppress(InputError):
            own = library if spec.demonstrations else None
            yield prepare(name, str(head.get("model", "")), own)
    plans = [str(entry.value) for entry in entries if entry.path == "plan" and entry.value]
    if plans:
        with suppress(RunError):
            yield prepare_plan(parse(plans[-1]), library)


def _context(entries: Sequence[Entry]) -> Context:
    """How much fitted the model's window, where the journal says that it mattered."""
    context = next((entry.value for entry in entries if entry.path == "context"), None)
    if not isinstance(context, dict):
        return UNLIMITED
    try:
        return Context(context["policy"], int(context["window"]), int(context["reply"]))
    except (KeyError, TypeError, ValueError, InputError):
        return UNLIMITED


def _prompt(messages: Sequence[Message], stable: int) -> Prompt:
    *before, last = ((message["role"], message["content"]) for message in messages)
    return Prompt((*before, (last[0], last[1][stable:].lstrip("\n"))), stable)
