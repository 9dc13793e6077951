"""What a question's calls ask, and the tokens of each, beside those of another checkout.

    python -m benchmarks.prompts                      # tokens of every call's prompt
    python -m benchmarks.prompts --before CHECKOUT    # beside those of the Pearl in CHECKOUT
    python -m benchmarks.prompts --show step/letters  # and the prompts of a call, in full

Both run the same commands as a user would, against an endpoint on loopback that gives the same
replies to both: a plan of five steps on the example story, each step with an answer and the
sentences it quotes, then the choice of an option; and one step of a decomposition that is sent
back. Tokens are counted without the document, which both send alike in every reading step.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pearl.models.tokens import count_tokens

HERE = Path(__file__).resolve().parent.parent
STORY = str(HERE / "plans" / "examples" / "lighthouse.txt")


@dataclass(frozen=True)
class Call:
    """A call, the words by which its request is known, and the reply that it gets."""

    name: str
    mark: str
    reply: str


@dataclass(frozen=True)
class Case:
    """A command as a user gives it, and the calls that it makes."""

    arguments: tuple[str, ...]
    calls: tuple[Call, ...]


PLAN = """\
1. keeper = FIND_CHARACTER(CTX, "Cuthbert Stroud") : Find who he is and what ails him
2. letters = FIND_EVENT(CTX, "the waxed letters for Cuthbert Stroud") : Find his use of them
3. night = FIND_EVENT(CTX, "the night of the ninth of February 1921") : Find what happened
4. bearing = FIND_RELATION(CTX, letters, "{night}") : Find how the letters bear on that night
5. stay = COMPREHEND(CTX, "why Mara stays on, given {keeper} and {bearing}") : Explain why"""

STEPS = (
    Call(
        "step/keeper",
        "Find who he is and what ails him",
        """Cuthbert Stroud is the principal keeper of the Garrow and Mara's father. He finds his \
way by touch and by what she tells him, which she has done for years. He is proud of how he climbs.
> He climbed faster than any of them.
> Every key on his ring carried a bit of tarred twine with knots in it, one knot for the oil \
store, two for the flags, three for the book press.
> She was in the habit of telling him things of that sort.""",
    ),
    Call(
        "step/letters",
        "Find his use of them",
        """He goes through the bag first, feels each flap with his thumb, and keeps the thick \
letter that is shut with wax. He says that it is the chandler's bill, which is in the bag too.
> He took out the letters singly, turned each one over, passed his thumb across the flap and \
handed it on to her; and one of them, a thick one, shut with a lump of wax the size of a penny \
though the gum would have served, he put inside his tunic.
> As a rule they came in February.""",
    ),
    Call(
        "step/night",
        "Find what happened",
        """Mara, then eighteen, had the first watch after six nights of watch and watch, and \
slept. Snow packed the north panes, so that nobody in the north could see the light.
> Pickersgill should have come back from leave by the Thursday boat, and the boat had not been \
able to land for the swell, as the log recorded, and after that it blew; so that she and her \
father had stood watch and watch for six nights, and that night the first watch was hers.
> The lamp was burning and the lens going round as it ought, and on the north side the panes \
were white from sill to roof with packed snow, so that each beam as it swung past lit them up \
like a wall.""",
    ),
    Call(
        "step/bearing",
        "Find how the letters bear on that night",
        """They come each February, the month of that night, from somebody who has to do with it, \
and he keeps them from her.
> It had come before, that letter, or its brothers had.
> As a rule they came in February.""",
    ),
    Call(
        "step/stay",
        "Explain why",
        """She sees for him, so that he keeps his post until his pension is due.
> "Two winters," said her father. "This and one more. Then a house in Kelby with a gate to it, \
and you can paint the gate.\"""",
    ),
)
OPTIONS = ("To see for her father", "For Brekke", "For the pay", "To learn the trade")


CASES = (
    Case(
        ("ask", STORY, "Which of these is NOT a reason why Mara stays on the Garrow?",
         *(part for option in OPTIONS for part in ("--option", option))),
        (Call("plan", "", PLAN), *STEPS, Call("option", "(A)", "A")),
    ),
    Case(
        ("ask", STORY, "Who is Mara's father?", "--strategy", "decomp"),
        (Call("next", "", '1. father = FIND_NOBODY("Mara")'), Call("next/corrected", "", "[EOQ]")),
    ),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.prompts", description=__doc__)
    parser.add_argument("--before", metavar="CHECKOUT", type=Path)
    parser.add_argument("--show", metavar="CALL", default="")
    chosen = parser.parse_args()
    now = prompts(HERE)
    before = prompts(chosen.before.resolve()) if chosen.before else {}
    print(f"{'tokens beside the document':28}" + ("  before" if before else "") + "     now")
    for call, text in now.items():
        print(f"{call:28}" + (f"{tokens(before.get(call, '')):8,}" if before else ""), end="")
        print(f"{tokens(text):8,}")
    for name, sent in (("before", before), ("now", now)):
        if chosen.show in sent:
            print(f"\n=== {chosen.show}, {name}\n{shortened(sent[chosen.show])}")
    totals = [sum(tokens(sent[step.name]) for step in STEPS) for sent in (before, now) if sent]
    print("\nfive steps: " + " → ".join(f"{total:,}" for total in totals))


def prompts(checkout: Path) -> dict[str, str]:
    """The prompt of each call of CASES, made by the Pearl of a checkout in a process of its own."""
    sent: dict[str, str] = {}
    for case in CASES:
        server, before = serve(list(case.calls), sent), len(sent)
        with tempfile.TemporaryDirectory() as folder:
            settings = {
                "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
                "OPENAI_API_KEY": "none", "PEARL_CONTEXT": "128000", "PEARL_CONSTRAIN": "never",
                "PYTHONPATH": str(checkout),
            }  # fmt: skip
            done = subprocess.run(
                [sys.executable, "-m", "pearl", *case.arguments, "--model", "scripted"],
                cwd=folder, env={**os.environ, **settings}, capture_output=True, check=False,
                text=True,
            )  # fmt: skip
            # Some cases end with a refused call; a Pearl that does not start makes none.
            if len(sent) == before:
                sys.exit(f"pearl {case.arguments[0]} fails in {checkout}: {done.stderr.strip()}")
        server.shutdown()
    return sent


def serve(calls: list[Call], sent: dict[str, str]) -> ThreadingHTTPServer:
    """An endpoint on loopback that answers each call once, and keeps what was asked in ``sent``.

    Independent steps come in any order, so a request is known by its words.
    """

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = "\n\n".join(
                f"[{part['role']}]\n{part['content']}" for part in body["messages"]
            )
            call = next((call for call in calls if call.mark in prompt), None)
            if call is None:
                self.send_error(400, "this call is not among those of the case")
                return
            calls.remove(call)
            sent[call.name] = prompt
            message = {"role": "assistant", "content": call.reply}
            data = json.dumps(
                {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def shortened(prompt: str) -> str:
    """A prompt with its document left out."""
    return re.sub(
        r"^<document[^>]*>\n.*?</document>", "<document>…</document>", prompt, flags=re.M | re.S
    )


def tokens(prompt: str) -> int:
    return count_tokens(shortened(prompt)) if prompt else 0


if __name__ == "__main__":
    main()
