"""What an endpoint takes beside the plain request, and what it is found not to take.

Fields for prompt caching and the name of the token limit differ from endpoint
to endpoint. None of them decides an answer, so none is part of a model's
identity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlsplit

Caching = Literal["off", "key", "breakpoint", "anthropic"]
"""``key``: a name for the prefix; ``breakpoint``: that and where it ends; ``anthropic``:
where it ends, in Anthropic's words."""

OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"

EXPLICIT = {"mode": "explicit"}

FIRST_EXPLICIT = (5, 6)
"""The first version of GPT that is told where a prefix ends."""

_VERSION = re.compile(r"(?:^|[:/])gpt-(\d)(?:\.(\d+))?(?!\d)")
_CACHING = re.compile(r"prompt_cache|cache_control")
_NOT_TAKEN = re.compile(
    r"(?i)unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|not permitted|forbidden"
)


@dataclass(frozen=True, slots=True)
class Form:
    """How requests to an endpoint are written.

    Args:
        caching: how the endpoint is asked to keep a document.
        limit: the name of the field that limits a reply.
        settled: whether the endpoint has told the name of that field.
    """

    caching: Caching = "off"
    limit: str = OLD_LIMIT
    settled: bool = False

    def fields(self, document: str) -> dict[str, Any]:
        """Fields that ask to keep a document.

        Args:
            document: the hash of its text; empty for none.
        """
        if not document or self.caching not in ("key", "breakpoint"):
            return {}
        fields: dict[str, Any] = {"prompt_cache_key": f"pearl-{document[:32]}"}
        if self.caching == "breakpoint":
            fields["prompt_cache_options"] = EXPLICIT
        return fields

    def marker(self) -> dict[str, Any]:
        """What marks the part of a message after which the kept prefix ends; empty for none."""
        match self.caching:
            case "breakpoint":
                return {"prompt_cache_breakpoint": EXPLICIT}
            case "anthropic":
                return {"cache_control": {"type": "ephemeral"}}
            case _:
                return {}

    def without(self, complaint: str) -> Form:
        """The form without what an endpoint says it does not take; itself where it names nothing.

        Args:
            complaint: the endpoint's words, with the names of fields.
        """
        form = self
        if form.caching != "off" and _CACHING.search(complaint):
            form = replace(form, caching="off")
        named = re.search(rf"\b{form.limit}\b", complaint)
        if not form.settled and named and _NOT_TAKEN.search(complaint):
            other = NEW_LIMIT if form.limit == OLD_LIMIT else OLD_LIMIT
            form = replace(form, limit=other, settled=True)
        return form


def first_form(name: str, base_url: str, caching: str) -> Form:
    """The form to begin with.

    Args:
        name: the model's.
        base_url: the endpoint's address.
        caching: ``auto``, ``openai``, ``anthropic`` or ``off``.
    """
    host = urlsplit(base_url).hostname or ""
    own = host == "api.openai.com" or host.endswith(".api.openai.com")
    if caching == "auto":
        caching = "openai" if own else "off"
    limit = NEW_LIMIT if own else OLD_LIMIT
    match caching:
        case "openai":
            return Form("breakpoint" if _takes_breakpoints(name) else "key", limit)
        case "anthropic":
            return Form("anthropic", limit)
        case _:
            return Form("off", limit)


def _takes_breakpoints(name: str) -> bool:
    found = _VERSION.search(name)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= FIRST_EXPLICIT
