"""Pearl as one object: its commands as methods that share settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pearl.answer import Answer
from pearl.api import (
    Actions,
    Document,
    as_context,
    as_library,
    as_model,
    as_tools,
    ask,
    blocking,
    load_library,
    run,
    write_plan,
)
from pearl.jobs.answer_metrics import Metric, find_metric, with_grader
from pearl.jobs.batch import batch_job, make_setup
from pearl.jobs.job import CONCURRENT_TASKS, Job, JobResult, JobSettings, read_results, run_job
from pearl.jobs.progress import batch_progress, is_watched
from pearl.jobs.question_file import gold_problem, questions_in, read_index_beside
from pearl.lang.ast import Plan
from pearl.lang.errors import InputError, check_whole
from pearl.lang.functions import OwnAction
from pearl.lang.library import library_actions, library_source
from pearl.lang.output_files import check_kind, check_writable, write
from pearl.lang.source import Source
from pearl.models.base import Model
from pearl.models.constraints import Mode, choose_mode
from pearl.models.middleware.stack import EngineLimits
from pearl.prompts.calls import Demonstration
from pearl.runtime.calls import Watch
from pearl.runtime.context import Context, Policy
from pearl.session import Began
from pearl.store.database import store_files
from pearl.strategies.pearl import Planned
from pearl.strategies.registry import (
    OwnStrategy,
    StrategySettings,
    find_strategy,
    limits_within,
    own_strategy,
)

if TYPE_CHECKING:
    from pearl.evaluate.results import Evaluation
    from pearl.jobs.workers import JobProgress
    from pearl.mining.condense import Condensed
    from pearl.mining.mine import Mined


def _path_of(questions: object) -> str:
    """The path of a file of questions; an `InputError` where it is no path."""
    if not isinstance(questions, str | Path):
        raise InputError("Questions are in a file, an object a line: write it, and give its path.")
    return str(questions)


def _by_name(
    methods: str | Sequence[str | OwnStrategy],
) -> tuple[list[str], dict[str, OwnStrategy]]:
    """The names of methods, and the user's own strategies by name; an `InputError` where two of
    these have the same name, or one is no strategy."""
    names: list[str] = []
    own: dict[str, OwnStrategy] = {}
    for method in methods.split(",") if isinstance(methods, str) else methods:
        name = method.strip() if isinstance(method, str) else own_strategy(method).name
        names.append(name)
        if not isinstance(method, str) and own.setdefault(name, method) != method:
            raise InputError(f"Two strategies of yours have one name ({name}): rename.")
    return names, own


@dataclass(frozen=True)
class Refined(JobResult):
    """The result of `Pearl.refine`.

    Args:
        plans: the files of the plans whose answers were right.
        left: files that hold other plans for these questions, and were left unchanged.
    """

    plans: tuple[Path, ...] = ()
    left: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Pearl:
    """Pearl with its settings: the commands as coroutines.

    Each has a twin, named ``…_sync``, that blocks until it is done and also works in a notebook.

    Args:
        model: the model that plans and reads, or a name that `choose_model` takes; `Models` for
            several.
        library: the actions of plans; by default those Pearl ships.
        store: where runs and replies are kept, so that stopped work can be resumed: a file's
            path, or a database's address; None keeps nothing.
        demonstrations: example plans, or the folder they are in; by default those Pearl ships.
        context: how much fits a prompt, and what to do with a longer document; by default
            `context_for` the model.
        cache: whether to reuse the replies of earlier runs in the store.
        constrain: as `write_plan` takes it.
        concurrency: the most calls of a batch at the same time; 0 adapts it to the endpoint.
        max_cost: the most dollars that a job, or a question that is asked alone, may cost.
        max_tokens: the most tokens that it may read and write.
        restart: whether a batch starts again even where the store has one to resume.
        quiet: whether to show no progress bar.

    Raises:
        InputError: a number is below 0.
    """

    model: Model | str | None = None
    library: Actions = None
    # An address may hold a password.
    store: str | Path | None = field(default=None, repr=False)
    demonstrations: Sequence[Demonstration] | str | Path | None = None
    context: Context | Policy | None = None
    cache: bool = True
    constrain: Mode | None = None
    concurrency: int = 0
    max_cost: float | None = None
    max_tokens: int | None = None
    restart: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        self._limits()

    def _limits(self) -> EngineLimits:
        return EngineLimits(self.concurrency, max_cost=self.max_cost, max_tokens=self.max_tokens)

    def _library(self, strategy: str | OwnStrategy) -> Actions:
        return self.library if find_strategy(strategy).takes_library else None

    async def ask(
        self,
        document: Document,
        question: str,
        *,
        options: Sequence[str] = (),
        strategy: str | OwnStrategy = "pearl",
        tools: str | Sequence[OwnAction] = "",
        examples: int = 0,
        shown: int = 0,
        turns: bool = False,
        depth: int | None = None,
        watch: Watch | None = None,
        began: Began | None = None,
    ) -> Answer:
        """Answer a question about a document: `pearl.ask`. A strategy that brings its own actions
        does not use this object's library."""
        return await ask(
            document,
            question,
            options=options,
            library=self._library(strategy),
            demonstrations=self.demonstrations,
            model=self.model,
            context=self.context,
            store=self.store,
            cache=self.cache,
            watch=watch,
            began=began,
            strategy=strategy,
            tools=tools,
            constrain=self.constrain,
            examples=examples,
            shown=shown,
            turns=turns,
            depth=depth,
            max_cost=self.max_cost,
            max_tokens=self.max_tokens,
        )

    async def plan(
        self,
        question: str,
        *,
        shown: int = 0,
        watch: Watch | None = None,
        began: Began | None = None,
    ) -> Planned:
        """Have a plan written: `pearl.write_plan`."""
        return await write_plan(
            question,
            library=self.library,
            demonstrations=self.demonstrations,
            model=self.model,
            store=self.store,
            cache=self.cache,
            watch=watch,
            began=began,
            constrain=self.constrain,
            shown=shown,
        )

    async def run(
        self,
        plan: str | Plan | Planned,
        document: Document,
        *,
        options: Sequence[str] = (),
        watch: Watch | None = None,
        began: Began | None = None,
    ) -> Answer:
        """Run a plan on a document: `pearl.run`."""
        return await run(
            plan,
            document,
            options=options,
            library=self.library,
            model=self.model,
            context=self.context,
            store=self.store,
            cache=self.cache,
            watch=watch,
            began=began,
            max_cost=self.max_cost,
            max_tokens=self.max_tokens,
        )

    async def batch(
        self,
        questions: str | Path,
        *,
        documents: str | Path = "",
        output: str | Path = "",
        strategy: str | OwnStrategy = "pearl",
        tools: str | Sequence[OwnAction] = "",
        examples: int = 0,
        shown: int = 0,
        turns: bool = False,
        depth: int | None = None,
    ) -> JobResult:
        """Answer a file of questions, as ``pearl batch`` does.

        Args:
            questions: a file with one JSON object per line: id, question, document, and optionally
                options, gold and plan.
            documents: the folder with their documents; by default the one that holds the file.
            output: a file to write the answers to as well.
            strategy, tools, examples, shown, turns, depth: as `ask` takes them.

        Raises:
            InputError: an argument cannot be used; nothing was sent.
            ModelError: a budget ran out, or the endpoint refuses every call. The answers so far
                are in the store.
        """
        file = _path_of(questions)
        setup, model = make_setup(
            as_model(self.model),
            strategy,
            as_library(self._library(strategy)),
            self.demonstrations,
            StrategySettings(limits=limits_within(depth), shown=shown, turns=turns),
            fit=self._fit,
            plans=as_library(self.library) or load_library(),
            examples=examples,
            tools=as_tools(tools),
        )
        index = await read_index_beside(
            file, str(documents), ahead=CONCURRENT_TASKS, problem=setup.plan_problem
        )
        job = batch_job(index, str(output), setup)
        with self._settings(model) as settings:
            done = await self._do(job, settings)
            return JobResult(done.run, tuple(read_results(settings.store, done.run)), done)

    async def mine(
        self,
        questions: str | Path,
        *,
        output: str | Path = "",
        seeds: str | Sequence[str] = "core",
        exclude: str | Path = "",
    ) -> Mined:
        """Ask, for each question of a file, which new actions it needs, as ``pearl mine`` does.

        Args:
            questions: a file with one JSON object per line: question, and id.
            output: a file to write the library to as well.
            seeds: libraries whose actions the model knows, and need not propose again.
            exclude: a file of questions to leave out.

        Raises:
            InputError, ModelError: as `batch`.
        """
        from pearl.mining.mine import gather, mine_job, read_examples

        file = _path_of(questions)
        if output:
            check_writable(str(output), (file, exclude), store_files(str(self.store or "")))
            check_kind(str(output), "library")
        seed = as_library(seeds) or load_library()
        left_out = questions_in(str(exclude)) if exclude else ()
        examples = read_examples(file, left_out)
        with self._settings(as_model(self.model)) as settings:
            done = await self._do(mine_job(examples, file, seed, left_out), settings)
            mined = gather(read_results(settings.store, done.run), seed)
        if output:
            write(str(output), mined.text)
        return mined

    async def condense(
        self,
        library: str | Path | Mined,
        *,
        output: str | Path = "",
        target: int = 80,
        rounds: int | None = None,
        seeds: str | Sequence[str] = "core",
    ) -> Condensed:
        """Merge similar actions until at most ``target`` are left, as ``pearl condense`` does.

        Args:
            library: a file of actions, a library that ships, or the result of `mine`.
            output: a file to write the condensed library to as well.
            target: the most actions to keep.
            rounds: the most rounds in which the model is shown the remaining actions; 0 asks no
                model. By default 4, and 0 offline.
            seeds: libraries that plans will use beside the condensed one.

        Raises:
            InputError: an argument cannot be used.
            ModelError: the model gave no usable answer.
        """
        from pearl.mining.condense import condense
        from pearl.mining.condense_rounds import condense_in_run, usual_rounds
        from pearl.mining.mine import Mined

        if isinstance(library, Mined):
            source = Source("mined", library.text)
        else:
            load_library(library)  # Raises where an action cannot be read.
            source = library_source(str(library))
        if output:
            check_writable(str(output), (source.name,), store_files(str(self.store or "")))
            check_kind(str(output), "library")
        model, seeded = as_model(self.model), (as_library(seeds) or load_library()).actions
        actions = library_actions(source)
        check_whole(1, target=target)
        check_whole(rounds=rounds)
        if rounds := usual_rounds(model) if rounds is None else rounds:
            result = await condense_in_run(
                source, target, rounds, model, seeds=seeded, store=self.store, cache=self.cache
            )
        else:
            result = condense(actions, target, seeds=seeded)
        if output:
            write(str(output), result.text)
        return result

    async def refine(
        self,
        questions: str | Path,
        output: str | Path,
        *,
        documents: str | Path = "",
        rounds: int = 3,
        exclude: str | Path = "",
        metric: Metric = "",
    ) -> Refined:
        """Write and run a plan for each question, and keep those whose answers are right, as
        ``pearl refine`` does.

        Args:
            questions: a file as `batch` takes it, with gold in every row.
            output: the folder for the plans.
            documents: as `batch` takes it.
            rounds: how often a plan whose answer is wrong may be refined.
            exclude: a file of questions to leave out.
            metric: a function of question, gold answer and answer, which returns 1 for a right
                answer; the name under which a package offers one; or a rubric (`Graded`).

        Raises:
            InputError, ModelError: as `batch`.
        """
        from pearl.mining.refine import first_file, refine_job, write_demonstrations

        check_whole(rounds=rounds)
        shown = self.demonstrations if isinstance(self.demonstrations, str | Path) else ""
        file = _path_of(questions)
        read = (shown, documents or Path(file).parent)
        check_writable(first_file(Path(output), read))
        setup, model = make_setup(
            as_model(self.model),
            "pearl",
            as_library(self.library),
            self.demonstrations,
            fit=self._fit,
        )
        left_out = questions_in(str(exclude)) if exclude else ()
        index = await read_index_beside(
            file, str(documents), without=left_out, problem=gold_problem
        )
        scorer = find_metric(metric)
        model, how = with_grader(model, scorer), (index, setup, rounds, left_out, scorer)
        with self._settings(model) as settings:
            done = await self._do(refine_job(*how), settings)
            rows = tuple(read_results(settings.store, done.run))
        files = write_demonstrations(rows, Path(output))
        return Refined(done.run, rows, done, *map(tuple, files))

    async def evaluate(
        self,
        dataset: str,
        data: str | Path,
        *,
        methods: str | Sequence[str | OwnStrategy] = (),
        split: str = "all",
        documents: str | Path = "",
        limit: int = 0,
        sample: int = 0,
        seed: int = 1,
        sizes: Sequence[int] = (),
        reasoning: bool = False,
        metric: Metric = "",
        tools: str = "",
        index: str = "",
        passages: int = 0,
        shown: int = 0,
        examples: int = 0,
        turns: bool = False,
    ) -> Evaluation:
        """Run methods on the questions of a data set, and score them, as ``pearl eval`` does.

        Args:
            dataset: the data set's name, or ``questions`` for a file as `batch` takes it.
            data: the data set's file.
            methods: names, or strategies of your own; the others are compared with the first. By
                default the methods that suit the data set.
            split: a split of the data set, or several with commas between them.
            documents: for your own questions, as `batch` takes it.
            limit: take only this many questions, the first ones; 0 for all.
            sample: take only this many questions, drawn at random; 0 for all.
            seed: the seed of that random draw.
            sizes: also run PEARL with the library condensed to each of these numbers of actions.
            reasoning: whether the model labels each question's kind of reasoning.
            metric: a function of question, gold answer and answer that returns 0 to 1; the name
                under which a package offers one; or a rubric (`Graded`). By default the data
                set's own metric.
            tools: as `ask` takes it, but no functions.
            shown, examples, turns: as `ask` takes them.
            index: a folder that ``pearl index`` made, in which passages are looked up.
            passages: passages per look-up; 0 for the number that the step gives.

        Raises:
            InputError, ModelError: as `batch`.
        """
        from pearl.evaluate.evaluation_job import load_run
        from pearl.evaluate.report import failures
        from pearl.evaluate.setup import prepare_methods, read_sample, with_options

        if not isinstance(self.demonstrations, str | Path | None):
            raise InputError("An evaluation takes demonstrations as the folder they are in.")
        check_whole(limit=limit, sample=sample, examples=examples)
        chosen = read_sample(dataset, _path_of(data), split, limit, str(documents), sample, seed)
        own_library = as_library(self.library)
        library = own_library or load_library(*chosen.dataset.libraries)
        names, own = _by_name(methods)
        equip = partial(
            with_options,
            metric=metric,
            own=own,
            tools=tools,
            index=index,
            passages=passages,
            shown=shown,
            examples=examples,
            turns=turns,
        )
        folder = str(self.demonstrations or "")
        libraries = own_library.names if own_library else ()
        ready = prepare_methods(chosen, library, names, sizes, folder, libraries, equip)
        job, model = ready.job(as_model(self.model), self._fit, reasoning=reasoning, shown=folder)
        with self._settings(model) as settings:
            done = await self._do(job, settings)
            evaluation = load_run(done.run, settings.store, settings.prices)
        return replace(evaluation, notes=(*evaluation.notes, *failures(evaluation)))

    ask_sync = blocking(ask)
    plan_sync = blocking(plan)
    run_sync = blocking(run)
    batch_sync = blocking(batch)
    mine_sync = blocking(mine)
    condense_sync = blocking(condense)
    refine_sync = blocking(refine)
    evaluate_sync = blocking(evaluate)

    def _fit(self, model: Model) -> Context:
        return as_context(self.context, model)

    @contextmanager
    def _settings(self, model: Model) -> Iterator[JobSettings]:
        """The settings of a job; without a store, a temporary one that is deleted at the end."""
        with TemporaryDirectory() as folder:
            yield JobSettings(
                model,
                str(self.store or Path(folder, "store.db")),
                limits=self._limits(),
                cache=self.cache,
                restart=self.restart,
                constrain=choose_mode(self.constrain),
            )

    async def _do(self, job: Job, settings: JobSettings) -> JobProgress:
        with batch_progress(quiet=self.quiet or not is_watched()) as changed:
            return await run_job(job, settings, changed)
