"""Random texts of a plan grammar parse and check without an error; recorded plans are among them.

    python -m benchmarks.grammar 300 --library core --library quality [--json FILE]
    python -m benchmarks.grammar 3334 --gguf random

Each text is drawn from llguidance's masks over the bytes, so that nothing but the grammar decides
what comes next: what the grammar forgets shows as a finding of the checker. With ``--gguf``,
llama.cpp draws them instead, from the GBNF form: with a model's weights at temperature 5, or with
random ones over bytes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pearl.lang.ast import Plan, by_number
from pearl.lang.context_free import Grammar
from pearl.lang.diagnostics import Severity
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.plan_grammar import STEPS, plan_grammar
from pearl.lang.printer import print_plan
from pearl.lint.checker import check

ROOT = Path(__file__).parent.parent
RECORDED = ROOT.parent / "shared" / "data" / "pearl_gpt4" / "train.ctx_eval_long.jsonl"
MINED = RECORDED.parent / "mined_actions_81.txt"

END = 256
"""The token that ends a text, past the bytes."""

_MOST = 20_000
"""Bytes after which a text is taken to be one that never ends."""


CONTEXT = 16384
"""Tokens of a text drawn with random weights, at most."""

_KINDS = {
    **dict.fromkeys(b"0123456789", "digit"),
    **dict.fromkeys(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", "letter"),
    **{byte: chr(byte) for byte in b'"#[]{}(),:\n '},
}
"""The kinds of bytes that matter to a plan's form."""


class _Bytes:
    """A vocabulary of the 256 bytes and an end, for llguidance."""

    eos_token_id = END
    bos_token_id = None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
    special_token_ids = (END,)

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


def matcher_of(lark: str) -> Any:
    """What follows a grammar in llguidance's dialect, byte by byte.

    Raises:
        ValueError: llguidance does not take the grammar.
    """
    from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

    tokenizer = LLTokenizer(TokenizerWrapper(_Bytes()))
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_lark(lark))
    if matcher.is_error():
        raise ValueError(matcher.get_error())
    return matcher


def sampler(lark: str) -> Callable[[random.Random], str]:
    """A function that draws texts of a grammar, a byte at a time.

    Args:
        lark: the grammar in llguidance's dialect.

    Raises:
        ValueError: llguidance does not take the grammar, or a text comes to no end.
    """
    start = matcher_of(lark)

    def sample(random: random.Random) -> str:
        matcher = start.deep_copy()
        drawn = bytearray()
        while len(drawn) < _MOST:
            mask = matcher.compute_bitmask()
            allowed = [byte for byte in range(END) if mask[byte >> 3] >> (byte & 7) & 1]
            may_end = bool(mask[END >> 3] >> (END & 7) & 1)
            if may_end and (not allowed or random.random() < 0.03):
                return drawn.decode()
            onward = b"0123456789" if drawn.endswith(b"\n") else b"\n"
            if may_end and random.random() < 0.8:
                allowed = [byte for byte in allowed if byte in onward] or allowed
            byte = _pick(random, allowed)
            drawn.append(byte)
            if not matcher.consume_token(byte):
                raise ValueError(matcher.get_error())
        raise ValueError("a text comes to no end")

    return sample


def _pick(random: random.Random, allowed: list[int]) -> int:
    """A byte: any kind of byte as often as the others, so that texts end and plans get long."""
    kinds: dict[str, list[int]] = {}
    for byte in allowed:
        kinds.setdefault(_KINDS.get(byte, "other"), []).append(byte)
    return random.choice(kinds[random.choice(list(kinds))])


def errors(text: str, library: Library) -> list[str]:
    """The codes of a plan's errors; ``empty`` where nothing of it was read."""
    parsed = parse(text)
    found = check(parsed, library)
    codes = [one.code for one in found if one.severity is Severity.ERROR]
    return codes if parsed.plan.steps else [*codes, "empty"]


def takes(start: Any, text: str) -> bool:
    """Whether a grammar, as `matcher_of` gives it, admits a text as a whole."""
    data = list(text.encode())
    matcher = start.deep_copy()
    return bool(matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting())


def numbered(plan: Plan, library: Library) -> str:
    """A plan as the grammar writes it: steps and its own actions by number, actions by name."""
    own: dict[str, str] = {}
    for action in plan.declares:
        first = 1 if len(action.params) == 2 else 2
        own[action.name] = f"NEW_{first + 2 * sum(name in own for name in own)}"
    steps = []
    for step in by_number(plan).steps:
        known = library.get(step.action)
        name = known.name if known else own.get(step.action, step.action)
        steps.append(replace(step, action=name))
    declares = tuple(replace(action, name=own[action.name]) for action in plan.declares)
    return print_plan(Plan(tuple(steps), declares=declares, returns=plan.returns))


def recorded(rows: Path, library: Library, every: int = 1) -> Iterator[tuple[bool, str]]:
    """Whether the grammar with new actions admits each recorded plan that has no errors.

    Args:
        rows: a file of recorded plans.
        library: what they call.
        every: take one row of so many.
    """
    start = matcher_of(plan_grammar(library, new_actions=2).lark)
    for line in rows.read_text(encoding="utf-8").splitlines()[::every]:
        text = json.loads(line)["plan"]
        plan = parse(text).plan
        if not errors(text, library):
            written = numbered(plan, library)
            yield takes(start, written), written


def random_weights(path: Path) -> None:
    """Write a GGUF file of llama's architecture: one small layer of random weights over bytes."""
    import numpy as np
    from gguf import GGUFWriter, TokenType

    width, tokens = 32, [*_byte_names(), "<end>"]
    writer, chance = GGUFWriter(path, "llama"), np.random.default_rng(0)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_block_count(1)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.NORMAL] * END + [TokenType.CONTROL])
    # llama.cpp wants a list of merges; this one makes no token.
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(END)
    writer.add_eos_token_id(END)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
    shapes = dict.fromkeys(("token_embd", "output"), (len(tokens), width))
    inner = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes |= {f"blk.0.{name}": (width, width) for name in inner}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", chance.normal(0, 0.3, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _byte_names() -> list[str]:
    """The characters that stand for the bytes in GPT-2's vocabulary."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = count(256)
    return [chr(byte if byte in shown else next(others)) for byte in range(256)]


def by_llama(gguf: str, grammar: Grammar) -> Callable[[random.Random], str]:
    """A function that draws texts of a grammar with llama.cpp's own sampler.

    Args:
        gguf: a model's file, which draws at temperature 5; or ``random``: `random_weights`, by
            which quotes and line breaks are made likelier, and ``return`` and the end less, so that
            plans have several steps.
        grammar: that the texts are held to.
    """
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.n_ctx = CONTEXT if gguf == "random" else 4096
    options.n_parallel = 1
    options.verbosity = -1
    options.warmup = options.fit_params = False
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
    with TemporaryDirectory() as folder:
        if gguf == "random":
            random_weights(Path(folder) / "random.gguf")
        options.model.path = gguf if gguf != "random" else f"{folder}/random.gguf"
        server = xllamacpp.Server(options)
    body = {"prompt": "Plan:", "grammar": grammar.gbnf, "samplers": ["temperature"]}
    body |= {"temperature": 5, "n_predict": options.n_ctx - 100, "cache_prompt": False}

    def sample(random: random.Random) -> str:
        if gguf == "random":
            likelier = {ord('"'): 5, ord("\n"): 4, ord(")"): 2, ord("r"): -6, END: -6}
            bias = [[token, random.uniform(most / 2, most)] for token, most in likelier.items()]
            body.update(temperature=1, logit_bias=bias)
        reply = server.handle_completions({**body, "seed": random.randrange(1 << 31)})
        choice = (json.loads(reply) if isinstance(reply, str) else reply)["choices"][0]
        if choice["finish_reason"] == "length":
            raise ValueError("a text comes to no end")
        return str(choice["text"])

    return sample


@dataclass(slots=True)
class Outcome:
    """What came of a library's texts.

    Args:
        library: its name.
        characters: of the grammar.
        texts: how many were drawn.
        steps: in all of them.
        seconds: it took to draw and to check them.
        codes: how many texts have an error of each code.
        first: the first text with an error.
    """

    library: str
    characters: int
    texts: int = 0
    steps: int = 0
    seconds: float = 0.0
    codes: Counter[str] = field(default_factory=Counter)
    first: str = ""


def drawn(name: str, chosen: argparse.Namespace) -> Outcome:
    """Draw and check the texts of a library's grammar."""
    library = load_library(name)
    grammar = plan_grammar(library, chosen.steps, chosen.new_actions)
    form = grammar.gbnf if chosen.gguf else grammar.lark
    sample = by_llama(chosen.gguf, grammar) if chosen.gguf else sampler(form)
    dice = random.Random(f"{chosen.seed} {name}")
    outcome = Outcome(name, len(form))
    began = time.monotonic()
    while outcome.texts < chosen.texts:
        try:
            text = sample(dice)
        except ValueError as error:
            outcome.codes[str(error)] += 1
            outcome.texts += 1
            continue
        found = set(errors(text, library))
        outcome.codes.update(found)
        outcome.first = outcome.first or (text if found else "")
        outcome.texts += 1
        outcome.steps += len(parse(text).plan.steps)
        if outcome.texts % 50 == 0:
            print(f"\r{name}: {outcome.texts} texts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("texts", nargs="?", type=int, default=300)
    options.add_argument("--library", action="append", help="may be repeated; default: three")
    options.add_argument("--steps", type=int, default=STEPS)
    options.add_argument("--new-actions", type=int, default=0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--gguf", help="draw with llama.cpp and this model, or random weights")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    chosen = options.parse_args()
    mined = [str(MINED)] if MINED.exists() else []
    outcomes = [drawn(name, chosen) for name in chosen.library or ["core", "quality", *mined]]
    figures: dict[str, Any] = {"seed": chosen.seed, "libraries": [asdict(one) for one in outcomes]}
    for one in outcomes:
        wrong = ", ".join(f"{code}: {times}" for code, times in one.codes.items()) or "none"
        print(
            f"{Path(one.library).name}: {one.characters:,} characters of grammar; {one.texts:,} "
            f"texts, {one.steps:,} steps in {one.seconds:.0f} s; errors: {wrong}"
        )
        print(one.first, end="")
    if mined and not chosen.gguf:
        admitted = list(recorded(RECORDED, load_library(*mined)))
        taken = sum(fits for fits, _ in admitted)
        figures["recorded"] = {"plans": len(admitted), "admitted": taken}
        print(f"recorded plans without an error: {len(admitted)}; admitted: {taken}")
        print(*(text for fits, text in admitted if not fits), sep="\n")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
