"""What the stub answers: texts, plans and tokens, all decided by the prompt alone."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

PLANNING = "Now write the plan for this question"
CHOOSING = "Reply with the option's letter only"
MINING = "Reply with the new actions only"
CHARACTERS_A_TOKEN = 4
TAIL = 1_000
"""Characters at the end of a prompt in which it says how it wants the answer."""

ACTION = re.compile(r"^- (\w+)\(CTX, X\) :", re.MULTILINE)
FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]")
WORDS = (
    "harbour letter winter quarrel orchard brother ledger promise stranger journey machine "
    "garden window captain secret station debt mirror signal bridge doctor island silence key"
).split()


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request, as far as the answer depends on it.

    Args:
        key: a hash of everything that was asked, sampling too.
        digest: a hash of the messages alone, 64 hexadecimal digits.
        texts: the messages' texts, in order.
        model: the model that is asked for.
    """

    key: str
    digest: str
    texts: tuple[str, ...]
    model: str

    @property
    def tokens(self) -> int:
        return max(1, sum(map(len, self.texts)) // CHARACTERS_A_TOKEN)


def read_prompt(body: bytes | bytearray) -> Prompt:
    """The prompt in the body of a request.

    Raises:
        ValueError: it is no chat-completions request.
    """
    asked = json.loads(body)
    if not isinstance(asked, dict) or not isinstance(messages := asked.pop("messages", None), list):
        raise ValueError("The body holds no messages.")
    texts = tuple(_text(message["content"]) for message in messages)
    roles = " ".join(str(message["role"]) for message in messages)
    told = "\x1e".join((roles, *texts)).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(told).hexdigest()
    rest = zlib.crc32(json.dumps(asked, sort_keys=True).encode())
    return Prompt(f"{digest[:32]}:{rest:08x}", digest, texts, str(asked.get("model")))


def reply_text(prompt: Prompt) -> str:
    """What the stub says to a prompt: equal prompts get equal texts, others different ones."""
    last = prompt.texts[-1] if prompt.texts else ""
    tail = last[-TAIL:]
    if CHOOSING in tail:
        return "A"
    for text in prompt.texts:
        if PLANNING in text:
            return _plan(*text.rsplit(PLANNING, 1))
    mark = prompt.digest[:16]
    if MINING in tail:
        word = WORDS[int(mark[:4], 16) % len(WORDS)]
        return f"- FIND_{word.upper()}(CTX, X) : Find the {word} of X in CTX."
    if "Answer with a JSON array" in tail:
        return json.dumps([f"the first matter {mark[:8]}", f"the second matter {mark[8:]}"])
    if "Answer with one number" in tail:
        return str(int(mark[:4], 16))
    if "Answer with yes or no" in tail:
        return "yes" if int(mark[0], 16) % 2 else "no"
    if 'Answer with {"pairs"' in tail:
        return json.dumps({"pairs": [["the first matter", mark[:8]], ["another", mark[8:]]]})
    said = f"The document bears on this in more than one place, as mark {mark} shows."
    # DSPy asks for its fields between marks of its own, and calls a second time without them.
    fields = FIELD.findall(tail.rpartition("Respond with the corresponding output fields")[2])
    return "\n\n".join(f"[[ ## {name} ## ]]\n{said}" for name in fields) or said


def completion(
    prompt: Prompt, message: object, usage: object, *, finished: str = "stop"
) -> dict[str, Any]:
    """A chat completion as JSON data, with ``usage`` left out where it is None."""
    sent = {
        "id": f"chatcmpl-{prompt.digest[:24]}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": prompt.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finished, "logprobs": None}],
        "usage": usage,
    }
    if usage is None:
        del sent["usage"]
    return sent


def tokens_of(text: str) -> int:
    return max(1, len(text) // CHARACTERS_A_TOKEN) if text else 0


def _text(content: object) -> str:
    """A message's text; a message in parts is the texts of its parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return ""


def _plan(listing: str, question: str) -> str:
    """A valid plan with the actions that the prompt lists, and texts of the question's own."""
    mark = hashlib.sha256(question.encode("utf-8", "surrogatepass")).digest()
    listed = [name for name in ACTION.findall(listing) if name.startswith("FIND_")]
    finds = listed or ["FIND_EVENT"]
    first, second = (finds[mark[at] % len(finds)] for at in (0, 1))
    about, other, more = (
        f"the {WORDS[mark[at] % len(WORDS)]} and the {WORDS[mark[at + 1] % len(WORDS)]} "
        f"{mark[at : at + 3].hex()}"
        for at in (2, 8, 14)
    )
    explained = "COMPREHEND(CTX, X)" in listing and mark[31] % 2
    last = f'COMPREHEND(CTX, "{more}, given {{one}} and {{two}}")'
    return (
        "New actions:\n- None\n\n"
        f'1. one = {first}(CTX, "{about}") : Find what is told of {about}\n'
        f'2. two = {second}(CTX, "{other}") : Find what is told of {other}\n'
        f"3. ans = {last if explained else 'CONCAT(one, two)'} : Put together what was found"
    )
