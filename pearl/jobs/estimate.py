"""What a batch may take, before anything is sent: calls, tokens, money, time.

Each question is run on the replies that the store keeps, up to the calls that nobody has made yet.
What is kept costs nothing. Where it has the question's plan, the rest is that plan's; where it has
none, a plan of usual length is counted. A strategy that asks as it finds is counted with the calls
that a question may take at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pearl.jobs.batch import Setup, answer_row
from pearl.jobs.question_file import Question, QuestionIndex, QuestionTask
from pearl.lang.ast import Builtin, Function, Literal, Plan, Solver, SubPlan, mapped, step_refs
from pearl.lang.builtins import FUNCTIONS, BuiltinError, Given, read_label
from pearl.lang.graph import reads_document
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.text import counted
from pearl.lang.values import Pairs, Value, as_text
from pearl.models.base import Model, ModelError, Reply, Request, Usage
from pearl.models.constraints import Mode, forms_taken
from pearl.models.embeddings import TfIdf, choose_embedding
from pearl.models.middleware.stack import Engine
from pearl.models.routing import members, planner_of, readers_of
from pearl.models.tokens import FREE, Prices, dollars
from pearl.prompts.calls import Call, MapAnswer, WritePlan
from pearl.prompts.render import render
from pearl.runtime.binding import BindError, value_of
from pearl.runtime.calls import PROVE, Journal, calls_made
from pearl.runtime.context import Context
from pearl.runtime.fitting import size_of
from pearl.runtime.parts import fit_plan
from pearl.runtime.planner_prompt import fit_planning, narrowed
from pearl.session import Session, planning_context
from pearl.store.history import read_reply
from pearl.store.totals import mean_seconds
from pearl.strategies.pearl import direct_plan

if TYPE_CHECKING:
    from sqlalchemy import Engine as Database

STEPS = 2.94
"""Calls that a plan makes where it is not written yet: the mean of GPT-4's 1,988 plans."""

AROUND = 220
"""Tokens of a step's prompt around the document, and of its arguments: as Pearl's own runs have."""

SMALLEST_PREFIX = 1024
"""Tokens below which endpoints keep no beginning of a prompt; they keep steps of 128."""

SAID = 150
"""Tokens of a step's reply."""

PLANNED = 200
"""Tokens of a plan."""

FITS = 6000
"""Tokens of a document that fits the window of every model that is likely to be asked."""

PARALLEL = 32
"""Calls at a time, where nobody says."""

MAPPING = 2
"""Calls that map an answer to an option, at most: where none is said to fit, it is asked again."""


class Share(NamedTuple):
    """What one question may take, or many together; tokens are those of calls that are to be made.

    Args:
        calls: to be made.
        stored: that need no sending: their replies are in the store, or another question's call is
            the same.
        planned: of those to be made, the ones that write a plan.
        read: tokens read.
        cached: of them, those that an endpoint with a prefix cache keeps.
        written: tokens written.
        unforeseen: questions of which only is known how many calls they take at most.
        refused: questions that end before anything is sent.
        open_lists: questions whose plans go over a list of which only a run knows the length.
        asking: questions that have calls to make.
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
    """What a batch may take.

    Args:
        questions: how many.
        documents: how many different ones.
        strategy: how they are answered.
        share: of all questions together.
        planning: tokens of writing plans.
        planner: the name of the model that writes them.
        model: that of the one that reads.
        prices: what models cost.
        parallel: calls at a time.
        means: seconds that a call of each model takes, by its name; none of those that the store
            has no call of.
        looked_up: whether what is kept was taken off.
        why: what each question is told that ends before anything is sent, by its id.
        longest: tokens of the longest document, where the model's window is not known; else 0.
        forms: calls of a few tokens that find out which forms of replies are kept to, at most.
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
        """Tokens of all but planning; None where they depend on what is found."""
        share = self.share
        used = Usage(round(share.read), round(share.written), round(share.cached))
        return None if share.unforeseen else used

    @property
    def usage(self) -> Usage | None:
        """Tokens of all calls; None where they depend on what is found."""
        return self.planning + self.reading if self.reading else None

    @property
    def costs(self) -> tuple[int, int] | None:
        """Millionths of a dollar, without a prefix cache and with one; None where not known."""
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
        """A model that is to be called, and of which the store has no call; empty for none."""
        planned, calls = self.share.planned, self.share.calls
        called = [self.planner] * (planned > 0) + [self.model] * (calls > planned)
        return next((name for name in called if name not in self.means), "")

    @property
    def seconds(self) -> float | None:
        """How long it takes; None where that is not known. Calls of one question are taken to
        follow one another."""
        if self.unmeasured:
            return None
        planned, means = self.share.planned, self.means
        one_by_one = planned * means.get(self.planner, 0.0)
        one_by_one += (self.share.calls - planned) * means.get(self.model, 0.0)
        return one_by_one / min(self.parallel, max(self.share.asking, 1))

    def table(self) -> Iterator[tuple[str, str]]:
        """The estimate for a person, a line a fact."""
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
        if self.longest > FITS:
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
            yield (
                "tokens",
                f"about {usage.prompt_tokens:,} read, of which an endpoint with a prefix cache may "
                f"keep {usage.cached_tokens:,}, and {usage.completion_tokens:,} written",
            )
            without = self.model if self.prices.get(self.model) is None else self.planner
            yield (
                "cost",
                f"about {dollars(costs[0])}, with a prefix cache {dollars(costs[1])}"
                if costs
                else f"not known: no price for {without}; give one with --prices or PEARL_PRICES",
            )
        yield (
            "time",
            f"not known: no call of {self.unmeasured} is in the store yet"
            if self.seconds is None
            else f"{most} {self.seconds:,.0f} s with {counted(self.parallel, 'call')} at a time",
        )

    def as_object(self) -> dict[str, Any]:
        """The same as JSON data; money in dollars, None where it is not known."""
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
        index: its questions.
        setup: how they are to be answered.
        model: who is to answer, or the several who do.
        prices: what models cost.
        store: where replies are kept; None where there is none.
        constrain: whether replies are to be held to grammars and schemas.
        parallel: calls at a time.
        cache: whether replies of other runs are to count.

    Raises:
        InputError: a document cannot be read, or the store, or the file of tools.
    """
    if setup.tools:
        from pearl.tools.declared import check_tools

        # What a tool needs of the environment may be elsewhere.
        check_tools(setup.tools, None)

    async def look_up(request: Request) -> Reply:
        if store is not None and cache and (reply := read_reply(store, request.key)):
            return reply
        raise ModelError("uncached", "No reply to this call is cached.")

    prepared, context = setup.prepared, setup.context
    embeds = "embedding" in prepared.spec.uses and not isinstance(choose_embedding(), TfIdf)
    # Tools, and an endpoint that embeds, are asked while a question is answered.
    looked_up = not (setup.tools or embeds)
    planning = planning_context(model, context)
    engine = Engine(look_up, model, (), constrain=constrain)
    session = Session(engine, Journal(), context, planning=planning)
    share, why, longest = asyncio.run(_count(index, setup, session if looked_up else None))
    write = WritePlan("?", prepared.library, prepared.demonstrations)
    write = narrowed(write, prepared.settings.shown)
    # Where none is to be written, it may be that none fits.
    planned = share.planned > 0
    writing = _tokens(fit_planning(write, planning)[0], planning) if planned else 0
    reader = readers_of(model)[0]
    # A model in this process makes fewer at a time than it is asked for; the others wait.
    at_once = min(parallel, getattr(reader, "at_once", parallel))
    planner = planner_of(model)
    means: dict[str, float] = {}
    if store is not None:
        for each in (planner, reader):
            alone = getattr(each, "at_once", parallel) == 1
            mean = mean_seconds(store, each.name, alone=alone)
            if mean is not None:
                means[each.name] = mean
    return Estimate(
        len(index.places),
        len({place.document for place in index.places}),
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
    """Count all questions.

    Args:
        index: them.
        setup: how they are to be answered.
        session: has the replies that are kept; None where none is to be looked up.

    Returns:
        What they may take, what those are told that end before anything is sent, and the tokens of
        the longest document where the window is not known.
    """
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
    """Calls that a question may take, at most."""
    return setup.prepared.calls + MAPPING * bool(question.options)


def _share(
    setup: Setup,
    item: QuestionTask,
    row: dict[str, Any],
    journal: Journal,
    sent: set[str],
    fresh: bool,
) -> Share:
    """What a question may take, once it went as far as kept replies bring it.

    Args:
        setup: how it is to be answered.
        item: it, and its document.
        row: its row.
        journal: with its calls, of which those fail that are to be made.
        sent: the keys of calls that are to be made; these are added.
        fresh: whether no other question has its document read.
    """
    question, context = item.question, setup.context
    calls = [call for call in journal.entries if call.kind == "call"]
    missing = {call.call_key for call in calls if call.status == "failed"}
    done = calls_made(calls)
    if not missing:
        return Share(stored=len(done), refused=row["status"] == "failed" and not done)
    if setup.prepared.spec.name != "pearl" and not question.plan:
        return Share(max(1, _most(setup, question) - len(done)), len(done), unforeseen=1)
    # What a model takes is asked once, and not for a question's sake.
    proofs = {call.call_key for call in calls if call.path.startswith(f"{PROVE}/")}
    missing -= proofs
    again = len(missing & sent)
    sent |= missing
    library = (setup.plans if question.plan else None) or setup.prepared.library
    # A plan that is not written yet has such steps, as far as a long document goes.
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
    """Tokens that are read for a question, those of them that a prefix cache keeps, and those that
    are written.

    Args:
        item: it, and its document.
        context: what a prompt holds, and what is done with a longer document.
        steps: calls that carry out steps.
        reads: documents that they read.
        fresh: whether no other question has the document read.
    """
    size, passages, options = size_of(item.document, context.count), False, item.question.options
    if context.limit and context.policy == "retrieve":
        shown = min(size, max(0, context.room - AROUND))
        passages, size = shown < size, shown
    read, written = reads * size + steps * AROUND, steps * SAID
    if options:
        choosing = _tokens(MapAnswer(item.question.question, "", options), context)
        read, written = read + choosing + SAID, written + 2
    # Each document is read once in full; after that an endpoint may have its beginning ready.
    cached = size // 128 * 128 if size >= SMALLEST_PREFIX and not passages else 0
    return read, max(0.0, reads - fresh) * cached, written


def _calls(plan: Plan, library: Library, documents: int = 1) -> tuple[float, float, int]:
    """How many calls a plan makes, how many whole documents these read, and how many of its steps
    go over a list of which only a run knows the length.

    Such a list counts as one item. ``documents`` is how many the document consists of.
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
            # Its items are those that other steps go over.
            lengths |= {step.name: lengths[first.name]} if first.name in lengths else {}
        if step.action == "DOCUMENTS":
            labels.add(step.name)
            lengths[step.name] = documents
        over = mapped(step_refs(step))
        body, names = action.body if action else None, {ref.name for ref in step_refs(step)}
        if isinstance(body, Builtin) and over is None and names <= known.keys():
            # What a builtin makes of the plan's own words is the same in every run.
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
            # A call that comes back goes over a list, and only a run knows how often: it counts as
            # one, as an action that the library has not.
            others = {name: one for name, one in library.actions.items() if one is not action}
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
