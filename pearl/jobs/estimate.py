"""Estimates what a batch takes before anything is sent: calls, tokens, money and time.

Each question is run on the replies in the store, up to the first calls that have no reply yet.
Stored replies cost nothing. If the store has the question's plan, the rest of that plan is counted;
if not, a plan of average length. For a strategy whose calls depend on what it finds, the most calls
that a question may take are counted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import Engine as Database

from pearl.jobs.batch import Setup, answer_row
from pearl.jobs.question_file import INLINE, Question, QuestionIndex, QuestionTask
from pearl.lang.ast import Builtin, Function, Literal, Plan, Solver, SubPlan, mapped, step_refs
from pearl.lang.builtins import FUNCTIONS, BuiltinError, Given, read_label
from pearl.lang.graph import reads_document
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.text import counted
from pearl.lang.values import Pairs, Value, as_text
from pearl.models.base import OFFLINE, Model, ModelError, Reply, Request, Usage
from pearl.models.constraints import Mode, forms_taken
from pearl.models.embeddings import TfIdf, choose_embedding
from pearl.models.middleware.stack import Engine
from pearl.models.routing import members, planner_of, readers_of
from pearl.models.tokens import FREE, Prices, dollars
from pearl.prompts.calls import Call, MapAnswer, WritePlan
from pearl.prompts.render import render
from pearl.retrieval.converters import files_of
from pearl.runtime.binding import BindError, value_of
from pearl.runtime.calls import PROVE, Journal, calls_made
from pearl.runtime.chunking import fit_plan
from pearl.runtime.context import Context
from pearl.runtime.fit_to_window import size_of
from pearl.runtime.planner_prompt import fit_planning, narrowed
from pearl.session import Session, planning_context
from pearl.store.history import read_reply
from pearl.store.totals import mean_seconds
from pearl.strategies.pearl import direct_plan

STEPS = 2.94
"""Calls of a plan that is not written yet: the mean of GPT-4's 1,988 plans."""

AROUND = 220
"""Tokens of a step's prompt beside the document, its arguments included: as in Pearl's own runs."""

SMALLEST_PREFIX = 1024
"""The fewest tokens of a prompt's beginning that endpoints cache; beyond, they cache 128 at a
time."""

REPLY = 150
"""Tokens of a step's reply."""

PLANNED = 200
"""Tokens of a plan."""

FITS = 6000
"""Tokens of a document that fits the window of every likely model."""

PARALLEL = 32
"""Calls at the same time, by default."""

MAPPING = 2
"""The most calls that map an answer to an option: the model may be asked again for the best one."""


class Share(NamedTuple):
    """What one question takes, or many together; tokens count only calls that are still to be made.

    Args:
        calls: calls to be made.
        stored: calls that need not be sent, as their reply is in the store, or another question
            makes the same call.
        planned: calls to be made that write a plan.
        read: prompt tokens.
        cached: prompt tokens that an endpoint with a prefix cache has cached.
        written: completion tokens.
        unforeseen: questions for which only the most calls are known.
        refused: questions that end before anything is sent.
        open_lists: questions whose plans go over a list whose length only a run can tell.
        asking: questions with calls to make.
    """

    calls: float = 0.0
    stored: int = 0
    planned: int = 0
    read: float = 0.0
    cached: float = 0.0
    written: float = 0.0
    unforeseen: int = 0
    refused: int = 0
    open_lists: int = 0
    asking: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a batch takes.

    Args:
        questions: how many questions.
        documents: how many different documents.
        strategy: the name of the strategy.
        share: what all questions take together.
        planning: tokens for writing plans.
        planner: the name of the model that writes plans.
        model: the name of the model that reads.
        prices: the price table.
        parallel: calls at the same time.
        means: mean seconds of a call, by the model's name; models without a call in the store are
            missing.
        looked_up: whether stored replies were subtracted.
        why: for each question that ends before anything is sent, its id and the reason.
        longest: tokens of the longest document, where the model's window is not known; else 0.
        forms: the most short calls that find out which constraints on replies the endpoint takes.
    """

    questions: int
    documents: int
    strategy: str
    share: Share
    planning: Usage
    planner: str
    model: str
    prices: Prices
    parallel: int
    means: Mapping[str, float]
    looked_up: bool
    why: tuple[str, ...]
    longest: int
    forms: int = 0

    @property
    def reading(self) -> Usage | None:
        """Tokens of all calls but planning; None where they depend on what is found."""
        share = self.share
        used = Usage(round(share.read), round(share.written), round(share.cached))
        return None if share.unforeseen else used

    @property
    def usage(self) -> Usage | None:
        """Tokens of all calls; None where they depend on what is found."""
        return self.planning + self.reading if self.reading else None

    @property
    def costs(self) -> tuple[int, int] | None:
        """The cost in millionths of a dollar, without and with a prefix cache; None if unknown."""
        reading, planned = self.reading, self.share.planned
        price = self.prices.get(self.model)
        planning = self.prices.cost({self.planner: self.planning} if planned else {})
        if reading is None or planning is None or (price is None and reading.total):
            return None
        each = (replace(reading, cached_tokens=0), reading)
        without, cached = (planning + (price or FREE).cost(usage) for usage in each)
        return without, cached

    @property
    def unmeasured(self) -> str:
        """The name of a model to be called that has no call in the store yet; empty for none."""
        planned, calls = self.share.planned, self.share.calls
        called = [self.planner] * (planned > 0) + [self.model] * (calls > planned)
        return next((name for name in called if name not in self.means), "")

    @property
    def seconds(self) -> float | None:
        """The seconds that it takes, if calls of one question follow one another; None where that
        is not known."""
        if self.unmeasured:
            return None
        planned, means = self.share.planned, self.means
        one_by_one = planned * means.get(self.planner, 0.0)
        one_by_one += (self.share.calls - planned) * means.get(self.model, 0.0)
        return one_by_one / min(self.parallel, max(self.share.asking, 1))

    def table(self) -> Iterator[tuple[str, str]]:
        """The estimate for people, one line for each fact."""
        share, usage, costs = self.share, self.usage, self.costs
        most = "at most" if share.unforeseen else "about"
        yield "questions", f"{self.questions:,} on {counted(self.documents, 'document')}"
        calls = f"{most} {round(share.calls):,}" if share.calls else "0"
        if share.stored:
            calls += f" to make, and {share.stored:,} cached or shared, which cost nothing"
        if share.unforeseen:
            calls += f": how many {self.strategy} makes depends on what it finds"
        if share.open_lists:
            asked = counted(share.open_lists, "question")
            calls += f"; {asked} may take more, as a list that a step makes counts as one item"
        if self.forms:
            calls += f"; at most {self.forms} short ones find out what forms of replies it keeps to"
        if not self.looked_up:
            calls += "; cached ones are not subtracted, as tools or an embedding would be asked"
        yield "calls", calls
        if self.longest > FITS and self.model != OFFLINE:
            yield (
                "window",
                f"not known: a document of {self.longest:,} tokens counts as one that fits; where "
                "it does not, it is read in parts, in many more calls (--window says what fits)",
            )
        if usage is None:
            unknown = "not known: batch a few questions, and pearl runs show last has theirs"
            yield "tokens", unknown
            yield "cost", unknown
        else:
            tokens = (
                f"about {usage.prompt_tokens:,} read, of which an endpoint with a prefix cache may "
                f"keep {usage.cached_tokens:,}, and {usage.completion_tokens:,} written"
            )
            offline = self.planner == self.model == OFFLINE
            yield "tokens", "not reported by the offline reader" if offline else tokens
            without = self.model if self.prices.get(self.model) is None else self.planner
            cost = f"not known: no price for {without}; give one with --prices or PEARL_PRICES"
            if costs:
                cost = f"about {dollars(costs[0])}"
                # Without a price of its own, what is cached costs as much.
                cost += f", with a prefix cache {dollars(costs[1])}" if costs[1] < costs[0] else ""
            yield "cost", cost
        yield (
            "time",
            f"not known: no call of {self.unmeasured} is in the store yet"
            if self.seconds is None
            else f"{most} {self.seconds:,.0f} s with {counted(self.parallel, 'call')} at a time",
        )

    def as_object(self) -> dict[str, Any]:
        """The estimate as JSON data; money in dollars, None where it is not known."""
        share, costs = self.share, self.costs
        unknown = dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens"))
        return {
            "questions": self.questions,
            "plans_to_write": share.planned,
            "refused": share.refused,
            "documents": self.documents,
            "calls": round(share.calls),
            "at_most": share.unforeseen > 0,
            "open_lists": share.open_lists,
            "forms": self.forms,
            "window_known": not self.longest,
            "kept": share.stored if self.looked_up else None,
            **(asdict(self.usage) if self.usage else unknown),
            "model": self.model,
            "planner": self.planner,
            "cost": costs[0] / 1e6 if costs else None,
            "cost_with_prefix_cache": costs[1] / 1e6 if costs else None,
            "seconds": self.seconds,
        }


def estimate(
    index: QuestionIndex,
    setup: Setup,
    model: Model,
    prices: Prices,
    store: Database | None = None,
    constrain: Mode = "never",
    parallel: int = PARALLEL,
    *,
    cache: bool = True,
) -> Estimate:
    """Estimate a batch. Nothing is sent, and no tool is asked.

    Args:
        index: the questions.
        setup: how they are to be answered.
        model: the model that is to answer, or several `Models`.
        prices: the price table.
        store: where replies are kept; None where there is no store.
        constrain: whether replies are to be held to grammars and schemas.
        parallel: calls at the same time.
        cache: whether replies of other runs may be reused.

    Raises:
        InputError: a document, the store, or the file of tools cannot be read.
    """
    if setup.tools:
        from pearl.tools.declared import check_tools

        # The tools' settings may be in the environment of another machine, which runs the batch.
        check_tools(setup.tools, None)

    async def look_up(request: Request) -> Reply:
        if store is not None and cache and (reply := read_reply(store, request.key)):
            return reply
        raise ModelError("uncached", "No reply to this call is cached.")

    prepared, context = setup.prepared, setup.context
    embeds = "embedding" in prepared.spec.uses and not isinstance(choose_embedding(), TfIdf)
    # Stored replies can be followed only if no tool, and no embedding endpoint, would be called.
    looked_up = not (setup.tools or embeds)
    planning = planning_context(model, context)
    engine = Engine(look_up, model, (), constrain=constrain)
    session = Session(engine, Journal(), context, planning=planning)
    share, why, longest = asyncio.run(_count(index, setup, session if looked_up else None))
    write = WritePlan("?", prepared.library, prepared.demonstrations)
    write = narrowed(write, prepared.settings.shown)
    # With no plan to write, the planner's prompt need not fit its window.
    planned = share.planned > 0
    writing = _tokens(fit_planning(write, planning)[0], planning) if planned else 0
    reader = readers_of(model)[0]
    # A model in this process may make fewer calls at the same time than were asked for.
    at_once = min(parallel, getattr(reader, "at_once", parallel))
    planner = planner_of(model)
    means: dict[str, float] = {}
    if store is not None:
        for each in (planner, reader):
            alone = getattr(each, "at_once", parallel) == 1
            mean = mean_seconds(store, each.name, alone=alone)
            if mean is not None:
                means[each.name] = mean
    documents = {place.document for place in index.places if place.document.startswith(INLINE)}
    # A row may name several documents, or a folder of them.
    paths = filter(os.path.exists, map(str, index.files))
    documents.update(file for path in paths for file in files_of(path))
    return Estimate(
        len(index.places),
        len(documents),
        prepared.spec.name,
        share,
        Usage(share.planned * (writing + 30), share.planned * PLANNED),
        planner.name,
        reader.name,
        prices,
        at_once,
        means,
        looked_up,
        why,
        longest,
        sum(forms_taken(each).to_ask for each in members(model)) if constrain != "never" else 0,
    )


async def _count(
    index: QuestionIndex, setup: Setup, session: Session | None
) -> tuple[Share, tuple[str, ...], int]:
    """What all questions take; for each that ends before anything is sent, the reason; and the
    tokens of the longest document where the window is not known. The session gives stored replies;
    it is None where they are not looked up."""
    shares: list[Share] = [Share()]
    why: list[str] = []
    sent: set[str] = set()
    read: set[str] = set()
    longest, context = 0, setup.context
    for task in index.read(index.ids):
        if context.limit is None:
            longest = max(longest, size_of(task.payload.document, context.count))
        if session is None:
            shares.append(Share(_most(setup, task.payload.question), unforeseen=1))
            continue
        journal = Journal()
        row = await answer_row(setup, task, replace(session, journal=journal))
        share = _share(setup, task.payload, row, journal, sent, task.group not in read)
        shares.append(share)
        if share.read:
            read.add(task.group)
        if share.refused:
            why.append(f"{task.id}: {row['error']['message']}")
    total = Share(*map(sum, zip(*shares, strict=True)))
    total = total._replace(asking=sum(share.calls > 0 for share in shares))
    return total, tuple(why), longest


def _most(setup: Setup, question: Question) -> int:
    """The most calls that a question may take."""
    return setup.prepared.calls + MAPPING * bool(question.options)


def _share(
    setup: Setup,
    item: QuestionTask,
    row: dict[str, Any],
    journal: Journal,
    sent: set[str],
    fresh: bool,
) -> Share:
    """What a question still takes, after it was run as far as stored replies go.

    ``row`` and ``journal`` are that run's; calls without a stored reply have failed in it. ``sent``
    has the keys of all calls to be made, to which those of this question are added. ``fresh`` says
    whether it is the first question that reads its document.
    """
    question, context = item.question, setup.context
    calls = [call for call in journal.entries if call.kind == "call"]
    missing = {call.call_key for call in calls if call.status == "failed"}
    done = calls_made(calls)
    if not missing:
        return Share(stored=len(done), refused=row["status"] == "failed" and not done)
    if setup.prepared.spec.name != "pearl" and not question.plan:
        return Share(max(1, _most(setup, question) - len(done)), len(done), unforeseen=1)
    # Probes of what constraints an endpoint takes are sent once, and counted elsewhere.
    proofs = {call.call_key for call in calls if call.path.startswith(f"{PROVE}/")}
    missing -= proofs
    again = len(missing & sent)
    sent |= missing
    library = (setup.plans if question.plan else None) or setup.prepared.library
    # A plan that is not written yet is taken to read a long document as the direct plan does.
    plan, times = parse(row["plan"] or "").plan, 1.0
    if not row["plan"]:
        direct = direct_plan(question.question)
        plan, _ = fit_plan(direct, 0, item.document, library, context)
        times = STEPS
    library, documents = library.with_declared(plan.declares), len(item.document.documents)
    steps, reads, lists = _calls(plan, library, max(1, documents))
    steps, reads = times * steps, times * reads
    planned = not row["plan"] and not again
    unmade = whole = steps + bool(question.options)
    if row["plan"]:
        answered = sum(not call.path.startswith("plan/") for call in done)
        unmade = max(whole - answered, len(missing)) - again
    part = min(1.0, unmade / whole)
    tokens = _reading(item, context, part * steps, part * reads, fresh)
    return Share(
        unmade + planned, len(done) + again, int(planned), *tokens, open_lists=int(lists > 0)
    )


def _reading(
    item: QuestionTask, context: Context, steps: float, reads: float, fresh: bool
) -> tuple[float, float, float]:
    """The prompt tokens of a question, those of them that a prefix cache has, and its completion
    tokens. Its ``steps`` calls that carry out steps read the whole document ``reads`` times;
    ``fresh`` is as in `_share`."""
    size, passages, options = size_of(item.document, context.count), False, item.question.options
    if context.limit and context.policy == "retrieve":
        shown = min(size, max(0, context.room - AROUND))
        passages, size = shown < size, shown
    read, written = reads * size + steps * AROUND, steps * REPLY
    if options:
        choosing = _tokens(MapAnswer(item.question.question, "", options), context)
        read, written = read + choosing + REPLY, written + 2
    # The first call that reads a document cannot find it in a prefix cache.
    cached = size // 128 * 128 if size >= SMALLEST_PREFIX and not passages else 0
    return read, max(0.0, reads - fresh) * cached, written


def _calls(plan: Plan, library: Library, documents: int = 1) -> tuple[float, float, int]:
    """How many calls a plan makes, how many whole documents they read, and how many of its steps go
    over a list whose length only a run can tell, which counts as one item.

    ``documents`` is the number of documents that the source holds.
    """
    calls, reads, lists = 0.0, 0.0, 0
    lengths: dict[str, int] = {}
    labels: set[str] = set()
    known: dict[str, Value] = {}
    for step in plan.steps:
        action = library.get(step.action)
        if step.action in ("PARTS", "GROUPS") and isinstance(step.args[1], Literal):
            lengths[step.name] = int(as_text(step.args[1].value))
            labels |= {step.name} if step.action == "PARTS" else set()
            continue
        if step.action == "BY_ITEM" and (first := next(iter(step_refs(step)), None)):
            # It has as many items as the value that it is made from.
            lengths |= {step.name: lengths[first.name]} if first.name in lengths else {}
        if step.action == "DOCUMENTS":
            labels.add(step.name)
            lengths[step.name] = documents
        over = mapped(step_refs(step))
        body, names = action.body if action else None, {ref.name for ref in step_refs(step)}
        if isinstance(body, Builtin) and over is None and names <= known.keys():
            # A builtin whose arguments are all in the plan gives the same value in every run.
            with suppress(BindError, BuiltinError, KeyError):
                given = [Given(arg, value_of(arg, known, None)) for arg in step.args]
                made = known[step.name] = FUNCTIONS[body.function](given)
                if isinstance(made, list | Pairs):
                    lengths[step.name] = len(made.items if isinstance(made, Pairs) else made)
        listed = over.name if over else ""
        times = lengths.get(listed, 1)
        lists += over is not None and listed not in lengths
        if over and listed in lengths and not over.mode.startswith("where"):
            lengths[step.name] = times
        if isinstance(body, SubPlan):
            # A recursive call counts as one call, as if its action were unknown: only a run can
            # tell how deep it goes.
            others = {name: own for name, own in library.actions.items() if own is not action}
            within = _calls(body.plan, Library(library.names, others), documents)
            calls, reads = calls + times * within[0], reads + times * within[1]
            lists += within[2]
        elif not isinstance(body, Builtin | Function | Solver):
            texts = (as_text(arg.value) for arg in step.args if isinstance(arg, Literal))
            calls += times
            reads += reads_document(step) or listed in labels
            reads += sum(1 / part[1] for part in map(read_label, texts) if part)
    return calls, reads, lists


def _tokens(call: Call, context: Context) -> int:
    return sum(context.count(message["content"]) for message in render(call))
