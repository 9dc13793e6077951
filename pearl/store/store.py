"""The store as the rest of Pearl sees it."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pearl.llm import Reply, Usage
from pearl.runtime.journal import Entry, Journal
from pearl.store import changes
from pearl.store.database import open_database
from pearl.store.owner import new_owner
from pearl.store.writer import LoopWriter, ThreadWriter, Work, Writer

if TYPE_CHECKING:
    from sqlalchemy import Engine


class Store:
    """Runs, journals and the cache, in one database; safe for several processes at once.

    Args:
        engine: the database.
        place: its address, as a person wrote it.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine = engine
        self.place = place
        self.owner = new_owner()
        beat = (changes.renew, self.owner)
        in_file = engine.dialect.name == "sqlite"
        self._writer: Writer = (LoopWriter if in_file else ThreadWriter)(engine, beat)

    def start(
        self, kind: str, head: dict[str, Any], fingerprint: str = "", *, own: bool = False
    ) -> str:
        """Open a new run, and give its name, which sorts by time.

        Args:
            kind: the command that makes it, as ``ask`` or ``batch``.
            head: what is run on what, as JSON data.
            fingerprint: by which the same work is known again.
            own: whether its replies are its own, apart from the common cache.
        """
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        name = f"{stamp}-{secrets.token_hex(3)}"
        now = time.time()
        row = {
            "id": name,
            "kind": kind,
            "fingerprint": fingerprint,
            "scope": name if own else "",
            "owner": self.owner,
            "started": now,
            "seen": now,
            "ended": None,
            "head": storable(json.dumps(head, ensure_ascii=False)),
        }
        self._writer.post(changes.put_runs, row)
        return name

    def resume(self, run: str) -> None:
        """Go on with a run that stopped."""
        row = {"id": run, "owner": self.owner, "seen": time.time(), "ended": None}
        self._writer.post(changes.put_runs, row)

    def end(self, run: str) -> None:
        """Write down that a run has ended."""
        self._writer.post(changes.end_runs, run)

    def journal(self, run: str, item: str = "") -> Journal:
        """The journal of a run, or of one question of a batch."""

        def write(entry: Entry) -> None:
            self._writer.post(changes.add_entries, _entry_row(run, item, entry))

        return Journal(run, write, self.flush)

    async def claim(self, scope: str, key: str) -> Reply | bool:
        """A call's reply where it is kept, else whether to make it.

        Returns:
            The reply; or True, and the caller makes the call and then `keep`s
            or `drop`s it; or False: another process is making it.
        """
        found: Reply | bool = await self._writer.ask(
            changes.claim, changes.Claim(scope, key, self.owner)
        )
        return found

    def keep(self, scope: str, key: str, reply: Reply, model: str, identity: str) -> Reply:
        """Keep a reply, once and for all; give it as it is kept."""
        text = storable(reply.text)
        row = {
            "scope": scope,
            "key": key,
            "text": text,
            "complete": reply.complete,
            **_usage(reply.usage),
            "model": model,
            "identity": storable(identity),
            "created": time.time(),
        }
        self._writer.post(changes.add_replies, row)
        return reply if text is reply.text else replace(reply, text=text)

    def drop(self, scope: str, key: str) -> None:
        """Give up a call that was claimed and got no reply."""
        self._writer.post(changes.give_up, changes.Claim(scope, key, self.owner))

    def put_row(self, row: dict[str, Any]) -> None:
        """Put the result of a batch's question."""
        self._writer.post(changes.put_rows, row)

    def move_row(self, run: str, id: str, position: int) -> None:
        """A question's place in its file has changed."""
        self._writer.post(changes.move_rows, {"r": run, "i": id, "p": position})

    def drop_row(self, run: str, id: str) -> None:
        """Forget the result of a question that is no longer asked, or not as it was."""
        self._writer.post(changes.drop_rows, {"r": run, "i": id})

    def post(self, work: Work, payload: Any) -> None:  # noqa: ANN401 - the work's own
        """Hand over a change of another module's."""
        self._writer.post(work, payload)

    async def ask(self, work: Work, payload: Any) -> Any:  # noqa: ANN401 - the work's own
        """Hand over a change of another module's, and wait for its answer.

        Raises:
            ModelError: the store takes nothing any more (reason ``store``).
        """
        return await self._writer.ask(work, payload)

    async def flush(self) -> None:
        """Wait until everything so far is safe."""
        await self._writer.flush()

    def close(self) -> None:
        """Commit everything and let go of the database."""
        self._writer.post(changes.forget_owner, self.owner)
        self._writer.close()
        self.engine.dispose()


def open_store(place: str) -> Store:
    """Open a store, and make it where it is missing.

    Args:
        place: a file's path, or a database's address.

    Raises:
        InputError: it cannot be used.
    """
    return Store(open_database(place), place)


def storable(text: str) -> str:
    """A text as every database takes it: without half characters and without NUL."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
    }


def _entry_row(run: str, item: str, entry: Entry) -> dict[str, Any]:
    # A call's text is in the table of replies already.
    told = entry.kind == "decision"
    return {
        "run": run,
        "item": item,
        "kind": entry.kind,
        "path": storable(entry.path),
        "value": storable(json.dumps(entry.value, ensure_ascii=False)) if told else None,
        "call_key": entry.call_key,
        "attempt": entry.attempt,
        "status": entry.status,
        "cause": storable(entry.cause),
        **_usage(entry.usage),
        "seconds": entry.seconds,
        "kept": entry.kept,
        "started": entry.started,
    }
