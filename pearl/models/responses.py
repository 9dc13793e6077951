"""The Responses API of OpenAI and of endpoints that speak like it.

A request says in other words what one for chat completions says, and an answer is put into the
words of a completion, so that the checks of one are those of the other.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pearl.models.base import Constraint, Reply, Request
from pearl.models.openai import Api, Form, Writer, first_form, half_a_character, read_json, reply_of
from pearl.models.transport import Redact

if TYPE_CHECKING:
    from pearl.models.settings import Settings

_FINISHED = {"max_output_tokens": "length", "content_filter": "content_filter"}
"""Why a response is incomplete, and what a completion calls it."""


class ResponsesWriter(Writer):
    """Writes requests to one model; nothing of them is kept at the endpoint."""

    def body(self, request: Request, form: Form) -> bytes:
        fields = self.fields(request, form) | {"store": False, "input": request.messages}
        try:
            return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            raise half_a_character() from None

    def held(self, constraint: Constraint) -> dict[str, Any]:
        fields = super().held(constraint)
        if "response_format" in fields:
            named = fields["response_format"]["json_schema"]
            return {"text": {"format": {"type": "json_schema", **named}}}
        if "tools" in fields:
            # What stands a level deeper in a chat completion.
            [tool] = fields["tools"]
            custom = tool["custom"]
            form = {"type": "grammar", **custom["format"]["grammar"]}
            choice = {"type": "custom", "name": custom["name"]}
            fields = {
                "tools": [{"type": "custom", **custom, "format": form}],
                "tool_choice": choice,
            }
        return fields


def first_responses_form(name: str, settings: Settings) -> Form:
    """The form to begin with; a document's prefix is named where chat completions name it."""
    chat = first_form(name, settings)
    named = replace(chat, limit="max_output_tokens", settled=True)
    return replace(named, caching="key") if chat.caching == "breakpoint" else named


def read_response(body: bytes, redact: Redact) -> Reply:
    """The text and usage of a response, whatever shape it really has.

    Args:
        body: what the endpoint sent with a status of success.
        redact: takes the key out of a text.

    Raises:
        ModelError: it holds no usable text; its usage is what was paid all the same.
    """
    return reply_of(as_completion(read_json(body)), redact)


def as_completion(data: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A response in the words of a chat completion.

    The text is that of its messages, or what a custom tool was called with; what a reasoning
    model thinks on its way is left out.
    """
    data = _object(data)
    usage = _object(data.get("usage"))
    completion: dict[str, Any] = {
        "error": data.get("error"),
        "usage": {
            "prompt_tokens": usage.get("input_tokens"),
            "completion_tokens": usage.get("output_tokens"),
            "prompt_tokens_details": usage.get("input_tokens_details"),
        },
    }
    items = data.get("output")
    if not isinstance(items, list):
        return completion
    said: dict[str, list[Any]] = {"text": [], "refusal": []}
    tools: list[dict[str, Any]] = []
    for item in map(_object, items):
        if item.get("type") == "custom_tool_call":
            tools.append({"custom": item})
        parts = item.get("content")
        for part in map(_object, parts if isinstance(parts, list) else ()):
            if part.get("type") in ("output_text", "refusal"):
                for name, texts in said.items():
                    texts += [part[name]] if name in part else []
    why = _object(data.get("incomplete_details")).get("reason")
    completion["choices"] = [
        {
            "message": {name: _joined(texts) for name, texts in said.items()},
            "finish_reason": _FINISHED.get(why, "stop") if isinstance(why, str) else "stop",
            "error": data.get("error"),
        }
    ]
    message = completion["choices"][0]["message"]
    message |= {"content": message.pop("text"), "tool_calls": tools}
    return completion


def _object(data: object) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _joined(texts: list[Any]) -> Any:  # noqa: ANN401 - any JSON
    """The texts as one; None for none, and the list where they are no texts."""
    if not texts:
        return None
    return "".join(texts) if all(isinstance(text, str) for text in texts) else texts


RESPONSES = Api(("responses",), ResponsesWriter, read_response, first_responses_form)
"""The Responses API."""
