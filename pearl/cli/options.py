"""Options that several commands share, and the objects that are made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from pearl.lang.errors import InputError

if TYPE_CHECKING:
    from pearl.commaqa.search import SearchMode
    from pearl.jobs.answer_metrics import Metric
    from pearl.models.base import Model
    from pearl.models.constraints import Mode
    from pearl.runtime.context import Policy

_UNITS = {"k": 1_000, "m": 1_000_000, "b": 1_000_000_000}


def amount(value: str) -> int:
    """A whole number, with k, M or B for thousands, millions, billions: ``2M``."""
    text = value.strip().lower().replace(",", "").replace("_", "")
    unit = _UNITS.get(text[-1:], 1)
    with suppress(ValueError, OverflowError):
        number = int(float(text[:-1] if unit > 1 else text) * unit)
        if number >= 1:
            return number
    raise click.BadParameter(f"{value} is no number above 0: write it as 500, 20k or 2M.")


def concurrency(value: str) -> int:
    """A number of calls, or 0 for ``auto``."""
    if value.strip().lower() == "auto":
        return 0
    if value.strip().isdigit() and 1 <= int(value) <= 10_000:
        return int(value)
    raise click.BadParameter(f"{value} is neither auto nor a number from 1 to 10000.")


_option = click.option

# fmt: off
OPTIONS: Mapping[str, Callable[[Any], Any]] = MappingProxyType({
    "library": _option(
        "--library", "libraries", multiple=True, metavar="FILE",
        help="Action library: a .actions file, the paper's NAME(ARGS) # definition text, or a "
        "shipped one (core, quality). Repeatable; later ones win. Default: those of [tool.pearl] "
        "in pyproject.toml, else core and quality; some strategies and data sets have their own.",
    ),
    "option": _option(
        "--option", "choices", multiple=True, metavar="TEXT",
        help="An answer to choose from; give at least two.",
    ),
    "json": _option("--json", "as_json", is_flag=True, help="Print JSON, for machines."),
    "model": _option(
        "--model", default="", metavar="NAME",
        help="A model of the endpoint, local, a GGUF file, offline, or recorded:FILE. Default: "
        "PEARL_MODEL, or offline where no endpoint is set.",
    ),
    "constrain": _option(
        "--constrain", type=click.Choice(["auto", "always", "never"]),
        help="Hold plans, steps and JSON replies to a grammar or a schema while the model writes "
        "them: auto where the endpoint takes that, always with an error where it does not. "
        "Default: PEARL_CONSTRAIN, or auto.",
    ),
    "compared": _option(
        "--model", "compared", multiple=True, metavar="NAME",
        help="As for other commands, but repeatable: each model does all methods, and the others "
        "are compared with the first.",
    ),
    "planner": _option(
        "--planner-model", "planner", default="", metavar="NAME",
        help="The model that writes plans and decides on steps. Default: as --model.",
    ),
    "reader": _option(
        "--reader-model", "reader", default="", metavar="NAME",
        help="The model that reads the document and answers. Default: as --model; an action of "
        "the library may name a model of its own (model: NAME).",
    ),
    "policy": _option(
        "--context", type=click.Choice(["auto", "full", "chunk", "retrieve"]), default="auto",
        show_default=True,
        help="A document longer than the model's window: full is an error, chunk reads it in "
        "parts and merges, retrieve reads the passages that bear on a step, auto is full where it "
        "fits and else chunk.",
    ),
    "window": _option(
        "--window", type=click.IntRange(1), metavar="TOKENS",
        help="The model's window. Default: PEARL_CONTEXT, or what is known of the model.",
    ),
    "strategy": _option(
        "--strategy", default="pearl", show_default=True, metavar="NAME",
        help="How: pearl (a plan first), decomp (a step at a time), fsm1, fsm2 (a state machine), "
        "rebel (recursion with tools) or react (search, look up, finish).",
    ),
    "tools": _option(
        "--tools", default="", metavar="FILE",
        help="For rebel: the tools that it may call (docs/tools.md), or none, in place of a search "
        "of the question's own document.",
    ),
    "demos": _option(
        "--demos", "--demonstrations", "demos", default="", metavar="DIR",
        help="A folder of example plans for the planner, as pearl refine fills it, or the name of "
        "one that ships with Pearl. Default: those that ship with Pearl, for the data set.",
    ),
    "sets": _option(
        "--demos", "--demonstrations", "sets", multiple=True, metavar="DIR",
        help="As for other commands, but repeatable: each method is shown each set, and its means "
        "over the sets are given with their spread.",
    ),
    "shown": _option(
        "--shown", type=click.IntRange(0), default=0, show_default=True, metavar="N",
        help="Show the planner only the N actions that are likeliest to serve the question, by "
        "its words and by how often plans used them, and the builtins; 0 shows all "
        "(docs/mining.md).",
    ),
    "examples": _option(
        "--examples", type=click.IntRange(0), default=0, show_default=True, metavar="N",
        help="Worked examples that each prompt for structured output shows, at most; every method "
        "that asks for some has its own. Plans are shown demonstrations instead.",
    ),
    "turns": _option(
        "--turns", is_flag=True,
        help="fsm1 and fsm2: states are turns of one conversation, which shows the document only "
        "once. Default: each state has a prompt of its own.",
    ),
    "pass": _option(
        "--pass", "passes", multiple=True, metavar="NAME",
        help="A rewrite of plans beside those that never change an answer (docs/passes.md). "
        "Repeatable; none takes out all.",
    ),
    "metric": _option(
        "--metric", default="", metavar="NAME",
        help="Score answers by a function that an installed package offers (docs/python.md). "
        "Default: the data set's own, or whether the answer has the gold one.",
    ),
    "rubric": _option(
        "--rubric", default="", metavar="FILE",
        help="Have a model grade answers by this text: wrong, partly (0.5) or right "
        "(docs/evaluation.md).",
    ),
    "grader": _option(
        "--grader-model", "grader", default="", metavar="NAME",
        help="The model that grades by the rubric. Default: the one that reads.",
    ),
    "exclude": _option(
        "--exclude", default="", metavar="FILE",
        help="Leave out the questions that this file holds too, as those to be evaluated.",
    ),
    "documents": _option(
        "--documents", default="", metavar="DIR",
        help="The folder with the documents. Default: the one the questions are in.",
    ),
    "store": _option(
        "--store", default="", metavar="PLACE",
        help="Where runs and replies are kept: a file, or postgresql+psycopg://… for a "
        f"team. Default: PEARL_STORE, or {Path('.pearl') / 'store.db'}.",
    ),
    "cache": _option(
        "--no-cache", is_flag=True,
        help="Make every call anew, in a run of its own, which alone keeps the replies.",
    ),
    "output": _option(
        "-o", "--output", default="", metavar="FILE", help="Write to a file, not the screen.",
    ),
    "form": _option(
        "--format", "form", type=click.Choice(["terminal", "markdown", "latex", "html"]),
        help="What to write. Default: what the file's ending says, else terminal.",
    ),
    "prices": _option(
        "--prices", default="", metavar="FILE",
        help="A table of prices over the one that ships with Pearl (docs/prices.md). Default: "
        "PEARL_PRICES.",
    ),
    "max-cost": _option(
        "--max-cost", type=click.FloatRange(0, min_open=True), metavar="DOLLARS",
        help="Stop before the call that would take the run over this.",
    ),
    "max-tokens": _option(
        "--max-tokens", type=amount, metavar="N",
        help="The same in tokens, read and written: 500k, 2M.",
    ),
    "concurrency": _option(
        "--concurrency", type=concurrency, default="auto", show_default=True, metavar="auto|N",
        help="Calls under way at a time, at most; fewer while the endpoint turns calls away.",
    ),
    "rpm": _option("--rpm", type=amount, metavar="N", help="Requests a minute, at most."),
    "tpm": _option("--tpm", type=amount, metavar="N", help="Tokens a minute, at most."),
    "max-wait": _option(
        "--max-wait", type=click.FloatRange(0), default=120.0, show_default=True, metavar="SECONDS",
        help="The longest pause that an endpoint may ask for; a call that is asked to wait longer "
        "fails.",
    ),
    "grace": _option(
        "--grace", type=click.FloatRange(0), default=30.0, show_default=True, metavar="SECONDS",
        help="How long calls under way may take to finish after Ctrl-C.",
    ),
    "width": _option(
        "--width", type=click.IntRange(1), metavar="N",
        help="tmn and tmn-model: the most proposals that are followed after each hop.",
    ),
    "depth": _option(
        "--depth", type=click.IntRange(0), metavar="N",
        help="decomp: how deep decompositions may nest; rebel: how deep sub-questions may nest, up "
        "to its own limit of 3, with 0 for none; tmn and tmn-model: the most hops.",
    ),
    "calls": _option(
        "--calls", type=click.IntRange(1), metavar="N",
        help="The most calls for a question. decomp, react and tmn-model: of the model; tmn and "
        "tmn-model: of agents; fsm1, fsm2 and rebel: of the model, up to their own limits of 40 "
        "and 80.",
    ),
    "learned": _option(
        "--learned", default="", metavar="FILE",
        help="For CommaQA: what pearl learn commaqa wrote.",
    ),
    "search": _option(
        "--search", type=click.Choice(["greedy", "best-first"]), default="best-first",
        show_default=True,
        help="For CommaQA: the best proposal at each hop, or best-first search.",
    ),
    "index": _option(
        "--index", default="", metavar="DIR",
        help="Look passages up in this index, as pearl index makes it. Default: in the question's "
        "own document.",
    ),
    "passages": _option(
        "--passages", type=click.IntRange(1, 20), metavar="K",
        help="How many passages a look-up gives, in decomp, retrieve-read and plans. Default: as "
        "many as the step says, which is 3 in the plans that ship.",
    ),
    "scheduler": _option(
        "--scheduler", default="", metavar="ADDRESS",
        help="Run on a Dask cluster: tcp://host:8786, or local for one on this machine.",
    ),
    "tag": _option(
        "--tag", "tags", multiple=True, metavar="NAME",
        help="A tag by which pearl runs and pearl view find the run again. Repeatable.",
    ),
    "restart": _option(
        "--restart", is_flag=True, help="Begin a new run, and leave the last one as it is.",
    ),
})
# fmt: on
"""The options, by the names that `shared` takes."""

GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "context": ("policy", "window"),
        # What methods of an evaluation use, besides library and demonstrations.
        "evaluation": tuple(
            "learned search index passages tools width depth calls shown examples turns".split()
        ),
        # How answers are scored.
        "scoring": ("metric", "rubric", "grader"),
        # How a batch's questions are answered.
        "answering": tuple(
            "strategy tools library demos shown examples turns depth constrain policy window "
            "pass".split()
        ),
        "models": ("model", "planner", "reader"),
        # Of commands that do a job: how fast, how much of it, and where.
        "job": tuple(
            "max-cost max-tokens concurrency rpm tpm max-wait grace prices scheduler store cache "
            "tag restart json".split()
        ),
    }
)
"""Options that go together."""


class Options:
    """The values of a command's shared options; options that it does not share are missing."""

    libraries: tuple[str, ...]
    choices: tuple[str, ...]
    as_json: bool
    model: str
    constrain: Mode | None = None
    compared: tuple[str, ...]
    planner: str = ""
    reader: str = ""
    context: Policy
    window: int | None
    strategy: str
    tools: str
    demos: str
    sets: tuple[str, ...]
    shown: int
    examples: int
    turns: bool
    passes: tuple[str, ...]
    metric: str
    rubric: str
    grader: str
    exclude: str
    documents: str
    store: str
    no_cache: bool
    output: str
    form: str | None
    prices: str
    max_cost: float | None
    max_tokens: int | None
    concurrency: int
    rpm: int | None
    tpm: int | None
    max_wait: float
    grace: float
    width: int | None
    depth: int | None
    calls: int | None
    learned: str
    search: SearchMode
    index: str
    passages: int | None
    scheduler: str
    tags: tuple[str, ...]
    restart: bool

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - as click has read them
        self.__dict__.update(values)


def shared(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options of `OPTIONS` or `GROUPS`, in the order of the names.

    The command gets all that it shares as one argument, ``options``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(*args: Any, options: Options | None = None, **rest: Any) -> None:  # noqa: ANN401
            own = {name: rest.pop(name) for name in keys}
            command(*args, options=Options(**vars(options or Options()), **own), **rest)

        before = len(getattr(called, "__click_params__", ()))
        for name in reversed([option for group in names for option in GROUPS.get(group, (group,))]):
            OPTIONS[name](called)
        keys = [param.name for param in called.__click_params__[before:]]  # type: ignore[attr-defined]
        return called

    return decorate


def choose(model: str, planner: str = "", reader: str = "") -> Model:
    """The model that the options of ``models`` name.

    Raises:
        InputError: a setting is missing or wrong; the message says which.
    """
    from pearl.models.routing import ModelNames

    return ModelNames(planner or model, reader or model).choose()


def choose_metric(options: Options) -> Metric:
    """The metric that the options of ``scoring`` choose; empty for the usual comparison.

    Raises:
        InputError: they exclude each other, or the rubric cannot be read.
    """
    from pearl.jobs.answer_metrics import Graded

    if options.metric and options.rubric:
        raise InputError("--metric and --rubric both say how answers are scored: give one.")
    if options.grader and not options.rubric:
        raise InputError("--grader-model grades by a rubric: name one with --rubric FILE.")
    return Graded(Path(options.rubric), options.grader) if options.rubric else options.metric
