"""A window that nobody knows is learned from the endpoint that refuses a longer prompt."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import pearl
from pearl.lang.source import Source
from pearl.models.base import ModelError, Reply, Request
from pearl.models.endpoint_replies import Complaint, complaint_of, failure
from pearl.models.local import load
from pearl.models.routing import Models, choose_model
from pearl.models.tokens import count_tokens
from pearl.prompts.calls import MapAnswer, Message
from pearl.prompts.render import render
from pearl.runtime.calls import Journal
from pearl.runtime.context import Context, ContextError, LearnedWindow, learned_window, learning
from pearl.runtime.fit_to_window import fit_fill
from pearl.session import context_for
from pearl.strategies.rebel_calls import filled_from
from tests.runs import entries
from tests.scripted_models import Scripted
from tests.server import Answer, Serve, Server, answering
from tests.shell import call, read_rows, write_rows
from tests.test_local import ABSENT, FILE

WINDOW = 4096
STORY = Source(
    "story.txt", "\n\n".join(f"Mara lit lamp {at} of the tower." * 9 for at in range(90))
)
PLAN = """\
1. who = FIND_CHARACTER(CTX, "Mara") : Identify Mara
2. same = CONCAT("Mara", "lamp") : Put names together
3. when = FIND_EVENT(CTX, "lamps") : Find the event
"""

LLAMA_CPP = {
    "error": {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 8748,
        "n_ctx": WINDOW,
    }
}

WORDS = {
    "OpenAI": "This model's maximum context length is 4096 tokens. However, your messages resulted "
    "in {sent} tokens. Please reduce the length of the messages.",
    "llama-cpp-python": "This model's maximum context length is 4096 tokens, however you requested "
    "{sent} tokens ({sent} in your prompt; 1 for the completion).",
    "vLLM": "The decoder prompt (length {sent}) is longer than the maximum model length of 4096. "
    "Make sure that `max_model_len` is no smaller than the number of text tokens.",
    "SGLang": "The input ({sent} tokens) is longer than the model's context length (4096 tokens).",
    "SGLang, in all": "Requested token count exceeds the model's maximum context length of 4096 "
    "tokens. You requested a total of {sent} tokens: {sent} tokens from the input messages and 0 "
    "tokens for the completion. Please reduce the number of tokens to fit within the limit.",
    "Anthropic": "prompt is too long: {sent} tokens > 4096 maximum",
    "Azure": "Input tokens exceed the configured limit of 4,096 tokens. Your messages resulted in "
    "{sent} tokens.",
    "Gemini": "The input token count ({sent}) exceeds the maximum number of tokens allowed (4096).",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: "
    "{sent} `inputs` tokens and 20 `max_new_tokens`",
    "xAI": "This model's maximum prompt length is 4096 but the request contains {sent} tokens.",
    "Mistral": "Prompt contains {sent} tokens and 0 draft tokens, too large for model with 4096 "
    "maximum context length",
    "Cohere": "too many tokens: total number of tokens in the prompt cannot exceed 4096 - received "
    "{sent}",
    "LM Studio": "the model is loaded with context length of only 4096 tokens, which is not enough",
    "llama.cpp": "request ({sent} tokens) exceeds the available context size (4096 tokens), try "
    "increasing it",
}


def tokens(body: dict[str, Any]) -> int:
    return sum(count_tokens(message["content"]) for message in body["messages"])


def windowed(
    words: str, window: int = WINDOW, count: Callable[[dict[str, Any]], int] = tokens
) -> Callable[[dict[str, Any]], Answer]:
    """An endpoint that refuses a longer prompt in such words; ``{sent}`` is the prompt's size."""

    def script(body: dict[str, Any]) -> Answer:
        if (sent := count(body)) > window:
            said = {"error": {"message": words.replace("{sent}", str(sent))}}
            text = json.dumps(said if words else LLAMA_CPP)
            return answering(400, text, "application/json")
        return "It tells of Mara."

    return script


def test_a_failure_that_says_nothing_of_a_window_has_its_prompt_not_counted():
    def count(text: str) -> int:
        raise AssertionError(text)

    async def fails(request: Request) -> Reply:
        raise ModelError("server", "It is busy.")

    listening = learning(fails, Context(count=count), Journal().decide)
    call = MapAnswer("Why?", "It closed.", ("yes", "no"))
    with pytest.raises(ModelError, match="busy"):
        asyncio.run(listening(Request(call, render(call), "map", "key")))


@pytest.mark.parametrize("words", [
    "estimate q.jsonl", "batch q.jsonl -o a.jsonl", "batch q.jsonl -o a.jsonl --strategy decomp",
    "eval questions --data q.jsonl --methods zero-shot,cot,pearl,retrieve-read,react",
])  # fmt: skip
def test_options_that_leave_no_room_are_told_before_a_command_sends_anything(
    serve: Serve, words: str
):
    server = serve(lambda _: "A")
    options = ["the lamp " * 900, "the rain"]
    row = {"id": "a", "question": "Which?", "options": options, "document": {"text": "Rain."}}
    Path("q.jsonl").write_text(json.dumps({**row, "gold": "B"}), encoding="utf-8")
    done = call(*words.split(), "--window", "2000")
    assert "The prompt that chooses an option, with room for what is found, has" in done.err
    assert (done.code, server.asked) == (1, [])


def test_a_choice_that_is_refused_as_too_long_is_asked_for_anew():
    long = "Rain fell in the street.\n\n" * 900

    def reply(call: Any) -> str | ModelError:
        if not isinstance(call, MapAnswer):
            return f"{long}Cy lit it.\n\n{long}"
        asked = count_tokens(render(call)[-1]["content"])
        return "A" if asked < WINDOW else ModelError("context", "It is too long.", window=WINDOW)

    model = Scripted(reply)
    plan = 'question: Who lit it?\n\na = FIND_CHARACTER(CTX, "x") : one'
    given = pearl.run_sync(plan, Source("a.txt", "Cy lit it."), options=["Cy", "Bo"], model=model)
    assert given.option == pearl.Option("A", "Cy")
    assert [request.path for request in model.asked] == ["step/a", "map", "map"]


@pytest.mark.parametrize("server", WORDS)
def test_a_refusal_says_how_much_fits(server: str):
    words = WORDS[server].replace("{sent}", "8748")
    error = failure(400, {}, complaint_of({"error": {"message": words}}, str))
    assert (error.reason, error.window, "PEARL_CONTEXT" in str(error)) == ("context", WINDOW, False)


@pytest.mark.parametrize(
    "words",
    [
        "Please reduce the length of the messages or completion.",
        "Your input exceeds the context window of this model. Please adjust your input.",
        "prompt is too long",
        "The model gpt-4.1 of 2024 has a context window that your 1048577 tokens exceed",
        "context length 12",
        "context length 3.14159 of 99999999999999999999",
    ],
)
def test_where_nothing_can_be_learned_the_setting_is_named(words: str):
    error = failure(400, {}, Complaint(words))
    assert (error.reason, error.window) == ("context", None)
    assert str(error).endswith("Say in PEARL_CONTEXT how many tokens fit it.")


@pytest.mark.parametrize("n_ctx", [-5, 0, True, 4096.5, 10**30])
def test_a_window_of_no_natural_number_is_none(n_ctx: object):
    error = failure(400, {}, complaint_of({"error": {**LLAMA_CPP["error"], "n_ctx": n_ctx}}, str))
    assert (error.reason, error.window, "PEARL_CONTEXT" in str(error)) == ("context", None, True)


def test_where_a_window_was_given_a_smaller_one_is_asked_for(serve: Serve):
    serve(windowed("prompt is too long"))
    Path("s.txt").write_text(STORY.text)
    Path("p.plan").write_text(PLAN)
    done = call("run", "p.plan", "s.txt", "--window", "20000")
    assert "Give a smaller --window, or PEARL_CONTEXT, than 20,000." in done.err
    assert "Say in PEARL_CONTEXT" not in done.err


# --- a number, read with care ---


def learned(said: int, words: int, context: Context, before: int | None = None) -> int | None:
    window = LearnedWindow(before)
    message: Message = {"role": "user", "content": "word " * words}
    context = Context(context.policy, context.window, context.reply, context.count, window)
    window.learn(said, [message], context)
    return window.tokens


def words_of(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("said", "window", "before", "after"),
    [
        (4096, None, None, 4096),
        (4096, 100_000, None, 4096),
        # More than the prompt can have had; less than any window.
        (60_000, None, None, None),
        (100, None, None, None),
        # It was sent before the window was known.
        (4096, None, 4096, 4096),
        (4096, 4096, None, None),
        # It should have fitted: the endpoint's tokens are smaller. That has an end.
        (20_000, 20_000, None, 16_000),
        (20_000, None, 16_000, 12_800),
        (20_000, None, 12_499, 12_499),
    ],
)
def test_what_is_said_is_no_window_where_it_cannot_be(
    said: int, window: int | None, before: int | None, after: int | None
):
    context = Context("auto", window, 100, words_of)
    assert learned(said, 10_000, context, before) == after


# --- runs ---


@pytest.mark.parametrize("server", ["OpenAI", "a field"])
def test_a_run_goes_on_in_parts(serve: Serve, server: str):
    endpoint = serve(windowed(WORDS.get(server, "")))
    answer = pearl.run_sync(PLAN, STORY)
    assert "PARTS(CTX, " in answer.plan
    assert "PEARL_CONTEXT=4096" in answer.notice
    # Nothing was sent in vain but the first call of each of the two steps.
    assert sum(tokens(one.body) > WINDOW for one in endpoint.asked) == 2
    asked = len(endpoint.asked)
    again = pearl.run_sync(PLAN, STORY)
    assert (again.plan, again.text) == (answer.plan, answer.text)
    # It is known for the rest of the process, and what is asked is the same.
    assert len(endpoint.asked) == 2 * asked - 2
    before = [one.text for one in endpoint.asked[:asked] if tokens(one.body) <= WINDOW]
    assert sorted(one.text for one in endpoint.asked[asked:]) == sorted(before)


def test_the_policy_says_what_is_done(serve: Serve):
    endpoint = serve(windowed(WORDS["vLLM"]))

    def run(policy: Any) -> pearl.Answer:
        return pearl.run_sync(PLAN, STORY, context=context_for(pearl.choose_model(), policy))

    with pytest.raises(pearl.RunError, match=r"the window has 4,096, .* Use --context chunk"):
        run("full")
    refused = len(endpoint.asked)
    assert "PARTS" not in run("retrieve").plan
    assert len(endpoint.asked) == refused + 2
    assert "PARTS(CTX, " in run("chunk").plan


def test_smaller_tokens_than_ours_are_made_room_for(serve: Serve):
    endpoint = serve(windowed(WORDS["OpenAI"], count=lambda body: tokens(body) * 7 // 5))
    answer = pearl.run_sync(PLAN, STORY)
    assert "PARTS(CTX, " in answer.plan
    assert sum(tokens(one.body) * 7 // 5 > WINDOW for one in endpoint.asked) <= 8


@pytest.mark.parametrize("window", [9000, 12_000])
def test_a_prompt_that_fits_by_our_count_alone_is_read_in_parts(serve: Serve, window: int):
    """Without a reply, or with one too, where the endpoint counts twice as many tokens."""
    words = WORDS["OpenAI"].replace("4096", str(window))
    serve(windowed(words, window, lambda body: 2 * tokens(body)))
    assert "PARTS(CTX, " in pearl.run_sync(PLAN, STORY).plan


def test_an_endpoint_that_refuses_everything_is_not_asked_for_ever(serve: Serve):
    endpoint = serve(windowed("maximum context length is 4096 tokens", window=0))
    with pytest.raises(pearl.RunError, match="is too small to read|does not fit the model"):
        pearl.run_sync(PLAN, STORY)
    assert len(endpoint.asked) < 60


def test_steps_that_ran_are_not_asked_again(serve: Serve):
    plan = "New actions:\n- EXPLAIN(X, Y) : Explain X by Y\n\n"
    plan += '1. a = EXPLAIN("lamps", "light") : Explain\n2. b = FIND_EVENT(CTX, "{a}") : Find it\n'
    endpoint = serve(windowed(WORDS["OpenAI"]))
    pearl.run_sync(plan, STORY)
    assert sum("EXPLAIN" in one.text for one in endpoint.asked) == 1


def test_a_planner_in_this_process_reads_a_quarter_of_its_window():
    class Own(Scripted):
        window, count = 8192, staticmethod(count_tokens)

    model = Own(['1. a = FIND_CHARACTER(CTX, "Mara") : Find her', "She lit it."] * 2)
    pearl.ask_sync(Source("s", "Mara lit the lamp."), "Who lit the lamp?", model=model)
    plan, step = model.asked
    sizes = [sum(count_tokens(one["content"]) for one in asked.messages) for asked in (plan, step)]
    assert 1000 < sizes[0] < 2048 > sizes[1]
    # What needs more is asked all the same, as long as the window holds it.
    pearl.ask_sync(Source("s", "Mara lit it."), "Who lit the lamp? " * 500, model=model)
    assert sum(count_tokens(one["content"]) for one in model.asked[2].messages) > 2048


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("known", "factor", "fit"),
    [
        (True, 1.0, [True]),
        (False, 1.0, [False, True]),
        # An endpoint that counts more tokens than are counted here refuses it again.
        (False, 1.3, [False, False, True]),
    ],
)
def test_a_planner_is_shown_what_fits_its_window(
    serve: Serve, known: bool, factor: float, fit: list[bool], several: bool
):
    """From the start where the window is known, and else after refusals; one that reads too, or a
    planner beside a reader."""
    words = WORDS["vLLM"].replace("4096", "3000")
    refusing = windowed(words, 3000, lambda body: int(factor * tokens(body)))

    def script(body: dict[str, Any]) -> Answer:
        answer = refusing(body)
        plans = "write reading plans" in body["messages"][0]["content"]
        return PLAN if plans and isinstance(answer, str) else answer

    settings = {"PEARL_CONTEXT": "3000"} if known else {}
    endpoint, store = serve(script, **settings), "runs.db"
    model = Models(choose_model("large"), choose_model("small")) if several else None
    document, question = Source("s", "Mara lit the lamp."), "Who lit the lamp?"
    answer = pearl.ask_sync(document, question, model=model, store=store)
    assert "FIND_CHARACTER" in answer.plan
    plans = [one for one in endpoint.asked if "write reading plans" in one.text]
    assert [factor * tokens(one.body) <= 3000 for one in plans] == fit
    said = [entry.value for entry in entries(store) if entry.path == "plan/fitted"][-1]
    assert re.fullmatch(r"The planner's window shows it \d\d actions and 1 of 5 dem.*", str(said))


def test_the_journal_says_so_and_a_run_resumed_does_as_before(serve: Serve):
    endpoint = serve(windowed(WORDS["Anthropic"]))
    store = "runs.db"
    first = pearl.run_sync(PLAN, STORY, store=store)
    decided = [one for one in entries(store) if one.kind == "decision"]
    windows = [one.value for one in decided if one.path == "window"]
    assert windows == [{"said": WINDOW, "tokens": WINDOW}]
    assert [one.value["window"] for one in decided if one.path == "context"] == [WINDOW]
    asked = len(endpoint.asked)
    # A new process knows nothing of it: it is refused as before, and pays for nothing again.
    learned_window.cache_clear()
    second = pearl.run_sync(PLAN, STORY, store=store)
    assert (second.plan, second.text, second.kept) == (first.plan, first.text, first.calls)
    assert len(endpoint.asked) == asked + 2


def test_a_batch_learns_once(serve: Serve):
    endpoint = serve(windowed(WORDS["vLLM"]))
    Path("story.txt").write_text(STORY.text)
    row = {"question": "Who?", "document": "story.txt", "plan": PLAN.splitlines()[0]}
    write_rows("q.jsonl", *({**row, "id": f"q{at}"} for at in range(6)))
    done = call("batch", "q.jsonl", "-o", "out.jsonl", "--concurrency", "1")
    assert done.code == 0, done.err
    assert len(read_rows("out.jsonl")) == 6
    assert sum(tokens(one.body) > WINDOW for one in endpoint.asked) == 1
    assert "PEARL_CONTEXT=4096" in done.err


# --- what a planner, a state machine and corrections are asked ---


def within(window: int, replies: Callable[[str], str]) -> Callable[[dict[str, Any]], Answer]:
    """An endpoint with a window, which answers the prompts that fit it."""
    refusing = windowed(WORDS["vLLM"].replace("4096", str(window)), window)

    def script(body: dict[str, Any]) -> Answer:
        answer = refusing(body)
        text = "\n".join(message["content"] for message in body["messages"])
        return replies(text) if isinstance(answer, str) else answer

    return script


def fitting(endpoint: Server, window: int) -> bool:
    return all(tokens(one.body) <= window for one in endpoint.asked)


STEPS = (
    'a = RETRIEVE("lamp 1", 8)', 'b = RETRIEVE("lamp 2", 6)', 'c = READ(b, "Who?")', "return c",
)  # fmt: skip


@pytest.mark.parametrize("window", [1500, 1000])
@pytest.mark.parametrize("known", [True, False])
def test_a_decomposer_is_shown_what_fits_its_window(serve: Serve, window: int, known: bool):
    """Its examples and what steps gave do not fit it whole; neither does a correction."""

    def reply(text: str) -> str:
        if "You take questions apart" not in text:
            return "Mara"
        step = STEPS[text.rpartition("Now the question")[2].count("<output")]
        # The first is wrong at first, at such length that its correction does not fit.
        wrong = step == STEPS[0] and "cannot" not in text and next(mistakes, False)
        return f'a = FIND({"x" * 400}, "{"the lamp " * 40}")' if wrong else step

    mistakes = iter([True])
    settings = {"PEARL_CONTEXT": str(window)} if known else {}
    endpoint, store = serve(within(window, reply), **settings), "runs.db"
    answer = pearl.ask_sync(STORY, "Who lit the lamps?", strategy="decomp", store=store)
    assert answer.text == "Mara"
    assert sum(tokens(one.body) > window for one in endpoint.asked) == (not known)
    said = [str(entry.value) for entry in entries(store) if entry.path == "next/fitted"]
    assert "of 15 demonstrations" in said[0]
    assert "and the beginning of" in said[-1]
    # A step is given the whole of what it takes.
    [read] = endpoint.steps()
    assert read.text.count("Mara lit lamp") == 6 * 9


@pytest.mark.parametrize(
    ("own", "refused"),
    [
        ("", True),
        ("RETRIEVE(Q, K: number) -> list : Give K passages on Q.\n  body: solver retrieve\n",
         False),
        ("CUT(CTX, N: number) -> list : Cut CTX into N parts.\n  body: builtin parts\n", False),
    ],
)  # fmt: skip
def test_under_full_decomp_is_refused_where_prompts_alone_read_the_document(
    serve: Serve, own: str, refused: bool
):
    endpoint = serve(['a = SAY("Mara")', "Mara", "return a"], PEARL_CONTEXT="8000")
    Path("s.txt").write_text(STORY.text * 2)
    Path("own.actions").write_text(f"SAY(X) : Say X.\n{own}")
    row = {"id": "q", "question": "Who lit it?", "document": "s.txt"}
    Path("q.jsonl").write_text(json.dumps(row))
    libraries = ("core", "quality", "own.actions")
    words = ("--strategy", "decomp", "--context", "full")
    words += tuple(word for library in libraries for word in ("--library", library))
    told = call("estimate", "q.jsonl", *words, "--json")
    assert told.json["refused"] == refused
    done = call("ask", "s.txt", "Who lit it?", *words)
    if refused:
        assert re.search("It is to read .* Use --context chunk, --context retrieve or", done.err)
    assert (done.code, len(endpoint.asked)) == ((1, 0) if refused else (0, 3))


def test_under_full_what_steps_gave_is_not_cut(serve: Serve):
    endpoint = serve(within(1000, lambda _: STEPS[len(endpoint.asked) - 1]), PEARL_CONTEXT="1000")
    full = context_for(pearl.choose_model(), "full")
    said = "The shortest prompt that asks for the next step has 1,"
    with pytest.raises(pearl.RunError, match=said):
        pearl.ask_sync(STORY, "Who?", strategy="decomp", context=full)
    assert fitting(endpoint, 1000)


def test_a_plan_s_correction_that_does_not_fit_is_asked_for_anew(serve: Serve):
    plans = iter([f'1. a = FIND(CTX, "{"the lamp " * 120}") : Find', PLAN])

    def reply(text: str) -> str:
        return next(plans) if "write reading plans" in text else "Mara"

    endpoint = serve(within(1470, reply), PEARL_CONTEXT="1470")
    assert "FIND_CHARACTER" in pearl.ask_sync(Source("s", "Mara lit it."), "Who lit it?").plan
    assert fitting(endpoint, 1470)


@pytest.mark.parametrize("examples", [0, 5])
def test_a_machine_s_correction_is_shown_fewer_paragraphs(serve: Serve, examples: int):
    wrong = iter(["It tells of Mara. " * 20])
    replies = {
        "simple or compound": {"kind": "simple", "sub_question": "Who lit lamp 3?"},
        "paragraphs of the document": {"answer": "Mara", "evidence": [], "title": None},
        "from what was found": {"answer": "Mara"},
    }

    def reply(text: str) -> str:
        reply = next(json.dumps(reply) for words, reply in replies.items() if words in text)
        return next(wrong, reply) if "<document>\n" in text else reply

    endpoint = serve(within(1200, reply), PEARL_CONTEXT="1200")
    answer = pearl.ask_sync(STORY, "Who lit lamp 3?", strategy="fsm1", examples=examples)
    assert answer.text == "Mara"
    assert fitting(endpoint, 1200)
    searches = [one.text for one in endpoint.asked if "<document>\n" in one.text]
    first, second, *_ = (text.count("Mara lit lamp") for text in searches)
    assert first > second > 0


def test_what_a_tool_says_is_cut_to_what_bears_on_the_question():
    call = filled_from("rebel_read", question="Who lit lamp 7 of the tower?", reply=STORY.text)
    context = Context(window=1600)
    fitted, decision = fit_fill(call, context)
    assert decision
    assert [decision["tokens"] > [1600], decision["cut"] > [300]] == [True, True]
    assert context.holds(render(fitted))
    assert "lamp 7 of" in str(fitted.given)
    for other in (Context("full", 1600), Context(window=500)):
        with pytest.raises(ContextError, match="asks for answer"):
            fit_fill(call, other)
    with pytest.raises(ContextError):
        fit_fill(filled_from("rebel_read", question=STORY.text, reply="Mara did."), context)


def test_paragraphs_that_a_search_showed_are_cut_as_they_grow(serve: Serve):
    long = [f"Mara lit lamp {at}. " + f"The sea was rough in year {at}. " * 60 for at in range(9)]
    turns = [("Search", f"lamp {at}") for at in range(5)] + [("Finish", "Mara")]
    said = iter(turns)

    def reply(text: str) -> str:
        action, words = next(said)
        return json.dumps({"thought": "It may help.", "action": action, "input": words})

    endpoint = serve(within(1800, reply), PEARL_CONTEXT="1800")
    document = Source("s", "\n\n".join(long))
    answer = pearl.ask_sync(document, "Who lit the lamps?", strategy="react")
    assert answer.text == "Mara"
    assert len(endpoint.asked) == len(turns)
    assert fitting(endpoint, 1800)


def test_a_tool_s_question_that_is_mended_fits(serve: Serve):
    def reply(text: str) -> str:
        return f'{{"no": "{"no " * 300}"}}' if "That reply cannot be used" not in text else "{}"

    endpoint = serve(within(660, reply), PEARL_CONTEXT="660")
    with pytest.raises(pearl.RunError):
        pearl.ask_sync(STORY, "Who lit lamp 3?", strategy="rebel")
    assert len(endpoint.asked) > 3
    assert fitting(endpoint, 660)


PROMPT = r"{} has [\d,]+ tokens, and 264 fit: the window has 520, of which 256 "
PARTS = r"would be read in \d+ parts, and a step runs over 3 at most: use --context r"


@pytest.mark.parametrize(("document", "strategy", "how", "said"), [
    *(("Mara lit the lamp.", strategy, ("--window", "520"), PROMPT.format(words))
      for strategy, words in {
        "pearl": "The shortest prompt that asks for a plan",
        "decomp": "The shortest prompt that asks for the next step",
        "fsm1": "The prompt that asks for kind, sub question",
        "fsm2": "The prompt that asks for kind, sub question",
        "rebel": "The prompt that asks for sub questions",
        "react": "The prompt that asks for thought, action, input",
      }.items()),
    (STORY.text, "pearl", ("--window", "2048", "--context", "chunk"), PARTS),
])  # fmt: skip
def test_what_cannot_fit_is_refused_by_all_before_the_first_call(
    serve: Serve, document: str, strategy: str, how: tuple[str, ...], said: str
):
    endpoint = serve(["It was not to be asked."], PEARL_WIDTH="3")
    Path("s.txt").write_text(document)
    row = {"id": "q", "document": "s.txt", "question": "Who lit the lamp?", "gold": "Mara"}
    Path("q.jsonl").write_text(json.dumps(row))
    chosen = ("--strategy", strategy, *how)
    ask = call("ask", "s.txt", row["question"], *chosen)
    assert (ask.code, len(re.findall(said, ask.err))) == (1, 1), ask.err
    batch = call("batch", "q.jsonl", "-o", "a.jsonl", *chosen)
    assert batch.code == 1
    error = json.loads(Path("a.jsonl").read_text())["error"]
    assert (error["reason"], bool(re.search(said, error["message"]))) == ("context", True)
    estimated = call("estimate", "q.jsonl", *chosen)
    assert "1 question is refused before anything is sent" in estimated.err
    assert re.search(said, estimated.err)
    evaluated = call("eval", "questions", "--data", "q.jsonl", "--methods", strategy, *how)
    assert re.search(said, evaluated.out + evaluated.err), evaluated
    assert not endpoint.asked


# --- the real server ---


@pytest.mark.slow
@pytest.mark.skipif(find_spec("xllamacpp") is None or not FILE.is_file(), reason=ABSENT)
def test_llama_cpp_itself_says_how_much_fits(serve: Serve):
    weights = load(FILE, 768, 1)
    url = f"{weights.server.listening_address}/v1"
    serve([], OPENAI_BASE_URL=url, OPENAI_API_KEY=weights.key, PEARL_MAX_TOKENS="8")
    model = pearl.choose_model()
    context = context_for(model, "retrieve")
    # It goes on with passages; that so short a reply is cut has nothing to do with the window.
    with pytest.raises(pearl.RunError, match="token limit"):
        pearl.run_sync(PLAN.splitlines()[0], STORY, model=model, context=context)
    assert learned_window(model.identity).tokens in (768, 614, 491)
