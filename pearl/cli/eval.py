"""``pearl eval``"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.batch import complain, do, job_settings
from pearl.cli.options import Options, equipped, load, shared
from pearl.cli.output import check_output, emit_json, write
from pearl.lang.source import InputError
from pearl.lang.text import counted

if TYPE_CHECKING:
    from pearl.evaluate.context import Demonstrations, EvaluationContext
    from pearl.evaluate.job import Sample
    from pearl.evaluate.results import Evaluation
    from pearl.jobs.job import Job, JobSettings
    from pearl.jobs.workers import JobProgress
    from pearl.lang.library import Library


class Names(click.ParamType[tuple[str, ...]]):
    """Names with commas between them."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:  # noqa: ANN401
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(one.strip() for one in value.split(",") if one.strip()))
        return names or self.fail("name at least one.", param, ctx)


class Sizes(click.ParamType[tuple[int, ...]]):
    """Numbers of actions with commas between them."""

    name = "sizes"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:  # noqa: ANN401
        if isinstance(value, tuple):
            return value
        parts = [one.strip() for one in value.split(",") if one.strip()]
        if not all(one.isdigit() and int(one) for one in parts):
            self.fail(f"{value} is no list of numbers above 0: write it as 20,81.", param, ctx)
        return tuple(dict.fromkeys(map(int, parts)))


@click.command(
    "eval",
    epilog="Example:  pearl eval quality --data dev.jsonl --split long --methods "
    "zero-shot,cot,mcq,pearl",
)
@click.argument("dataset")
@click.option("--data", default="", metavar="FILE", help="The data set's file; needed.")
@click.option(
    "--documents", default="", metavar="DIR",
    help="For your own questions: the folder with their documents. Default: the file's own.",
)  # fmt: skip
@click.option(
    "--split", type=Names(), default="all", show_default=True, metavar="NAMES",
    help="A part of it, or several with commas.",
)  # fmt: skip
@click.option(
    "--methods", type=Names(), metavar="NAMES",
    help="Which, with commas; the first is what the others are compared with (docs/evaluation.md "
    "has them all). Default: those the data set is for.",
)  # fmt: skip
@click.option(
    "--library-sizes", "sizes", type=Sizes(), default="", metavar="NUMBERS",
    help="Also PEARL with the library condensed to so many actions, as 1,20,81.",
)  # fmt: skip
@shared("library", "sets")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Only the first N questions of the file."
)
@click.option(
    "--sample", type=click.IntRange(1), metavar="N",
    help="Only N questions, drawn at random: of each split and category its share.",
)  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, metavar="S", help="Of that draw.")
@click.option(
    "--reasoning", is_flag=True, help="Have the model label each question's kind of reasoning."
)
@shared("evaluation")
@click.option("-o", "--output", default="", metavar="FILE", help="Write all results, one a line.")
@shared("constrain", "context", "compared", "planner", "reader", "job")
def eval_command(
    dataset: str,
    data: str,
    documents: str,
    split: tuple[str, ...],
    methods: tuple[str, ...] | None,
    sizes: tuple[int, ...],
    limit: int | None,
    sample: int | None,
    seed: int,
    reasoning: bool,
    output: str,
    given: Options,
) -> None:
    """Run every method on every question of DATASET, and show what they came to. DATASET is one
    of docs/evaluation.md, as quality, hotpotqa or fever, or questions: your own, as pearl batch
    reads them.

    Questions without an answer count as wrong. Demonstrations of questions that are evaluated are
    not shown to the planner. The same command goes on where it stopped.
    """
    from pearl.evaluate.datasets import choose_examples, find_dataset
    from pearl.evaluate.job import Sample, load_run
    from pearl.evaluate.methods.strategies import with_sizes
    from pearl.evaluate.report import summarise
    from pearl.evaluate.results import side_by_side, write_lines
    from pearl.report.document import as_object

    chosen = find_dataset(dataset)
    if not data:
        raise InputError(f"{chosen.title}: name the file with --data ({chosen.where}).")
    library = load(given.libraries or chosen.libraries)
    names, sizes, notes = with_sizes(methods or chosen.methods, sizes, library)
    splits = ",".join(split)
    examples = choose_examples(chosen, data, splits, limit or 0, documents, sample or 0, seed)
    home = Path(documents or Path(data).parent)
    check_output(output, *{str(home / one.document.name) for one in examples})
    if len(given.sets) > 1 and len(given.compared) > 1:
        raise InputError("Several models and several --demos: compare one or the other.")
    if sample:
        drawn = "drawn at random, of each split and category its share, with the seed"
        notes = (*notes, f"The questions were {drawn} {seed}.")
    asked = Sample(chosen, data, splits, examples)
    jobs = list(_jobs(asked, library, names, sizes, notes, given, reasoning=reasoning))
    done = _do_all(jobs, quiet=given.as_json)
    _, settings = jobs[0]
    evaluations = [load_run(one.run, settings.store, settings.prices) for one in done]
    evaluation = side_by_side(evaluations)
    if output:
        write(output, "".join(write_lines(evaluation)))
    if given.as_json:
        told = list(map(_came_to, done, evaluations))
        first = told[0] if len(told) == 1 else {"models": told}
        emit_json({**first, "report": as_object(summarise(evaluation))})
    else:
        from pearl.cli.report import show

        show(summarise(evaluation), "terminal", "", as_json=False)
        runs = " ".join(one.run for one in done)
        click.echo(click.style(f"\npearl report {runs}", dim=True))
    for progress in done:
        complain(progress, f"pearl runs show {progress.run}", "trial")


def _jobs(
    sample: Sample,
    library: Library,
    methods: tuple[str, ...],
    sizes: tuple[int, ...],
    notes: Sequence[str],
    given: Options,
    *,
    reasoning: bool,
) -> Iterator[tuple[Job, JobSettings]]:
    """A job for each model, or for each set of demonstrations, as it is when evaluated alone.

    Args:
        sample: the questions.
        library: the actions of plans.
        methods: names.
        sizes: to which the library is condensed, too.
        notes: what a reader must know of the questions and the methods.
        given: the options.
        reasoning: whether questions are labelled.
    """
    from pearl.answer import context_for
    from pearl.evaluate.context import make_context, without_evaluated
    from pearl.evaluate.job import evaluation_job
    from pearl.models.routing import with_library
    from pearl.strategies.pearl import shipped_folder

    dataset, examples = sample.dataset, sample.examples
    shipped = shipped_folder(given.libraries, dataset.demonstrations)
    for folder in given.sets or ("",):
        shown = without_evaluated(_demonstrations(folder, shipped, methods), examples)
        # A library or plans that somebody names, or that the data set has, are for every method.
        own = bool(given.libraries or folder or dataset.libraries)
        open_domain = None if own else _demonstrations("", "open_domain", ())
        stepwise = without_evaluated(open_domain, examples) if open_domain else None
        shared = equipped(make_context(library, shown, sizes, stepwise=stepwise), given)
        used = [setup.library for setup in shared.setups.values()]
        for name in given.compared or ("",):
            settings = job_settings(given, name)
            model = with_library(settings.model, used)
            job = evaluation_job(
                sample,
                methods,
                shared,
                context_for(model, given.context, given.window),
                model=model,
                reasoning=reasoning,
                notes=[*_notes(shown, stepwise, shared, methods, model.notice), *notes],
                prompt_set=folder if len(given.sets) > 1 else "",
            )
            yield job, replace(settings, model=model)


def _do_all(jobs: Sequence[tuple[Job, JobSettings]], *, quiet: bool) -> list[JobProgress]:
    """Do jobs one after another, with one budget for all."""
    from pearl.jobs.job import spent_in

    done: list[JobProgress] = []
    for job, settings in jobs:
        limits = settings.limits
        for earlier, (_, other) in zip(done, jobs, strict=False):
            limits = limits.less(spent_in(earlier.run, other), settings.prices)
        done.append(do(job, replace(settings, limits=limits), quiet=quiet))
    return done


def _came_to(done: JobProgress, evaluation: Evaluation) -> dict[str, Any]:
    """A run, and the means of its measures, as JSON data."""
    from pearl.evaluate.report import means_of

    facts = done.as_object()
    facts = {"trials": facts.pop("questions"), **facts, "model": done.model}
    # What the run says of itself is never written over by a measure of the same name.
    return {**facts, **means_of(evaluation), **facts}


def _demonstrations(folder: str, shipped: str, methods: tuple[str, ...]) -> Demonstrations:
    """Those of a folder, and as they were before refinement where a method asks for it."""
    from pearl.evaluate.context import EXECUTE, Demonstrations
    from pearl.evaluate.methods.strategies import NO_REFINEMENT
    from pearl.mining.refine import UNREFINED
    from pearl.strategies.pearl import load_demonstrations, seed_demonstrations

    refined = load_demonstrations(folder, shipped)
    seed, execute = seed_demonstrations(folder, shipped), load_demonstrations("", EXECUTE)
    if NO_REFINEMENT not in methods:
        return Demonstrations(refined, seed=seed, execute=execute)
    if not folder:
        raise InputError(
            f"{NO_REFINEMENT} needs demonstrations that were refined: make some with pearl "
            "refine, and name their folder with --demos."
        )
    unrefined = load_demonstrations(str(Path(folder) / UNREFINED))
    return Demonstrations(refined, unrefined, seed=seed, execute=execute)


def _notes(
    shown: Demonstrations,
    stepwise: Demonstrations | None,
    shared: EvaluationContext,
    methods: tuple[str, ...],
    notice: str,
) -> Iterator[str]:
    from pearl.evaluate.context import LIBRARY, STEPWISE, UNREFINED, setups_in_use
    from pearl.evaluate.methods import find_method
    from pearl.evaluate.methods.strategies import NO_REFINEMENT

    if notice:
        yield notice
    users = setups_in_use([find_method(name) for name in methods], shared)
    if users.keys() - {STEPWISE}:
        yield from _left_out(shown, "")
    if LIBRARY in users:
        yield from _unused(shown, shared, LIBRARY, "")
    if stepwise is not None and STEPWISE in users:
        of = f" of {', '.join(users[STEPWISE])}"
        yield from _left_out(stepwise, of)
        yield from _unused(stepwise, shared, STEPWISE, of)
    used = shared.setups[LIBRARY].demonstrations
    if NO_REFINEMENT in methods and shared.setups[UNREFINED].demonstrations == used:
        yield f"No demonstration was refined, so {NO_REFINEMENT} is the same as pearl."


def _left_out(given: Demonstrations, of: str) -> Iterator[str]:
    if given.left_out:
        yield (
            f"{counted(len(given.left_out), 'demonstration')}{of} left out, as the questions are "
            "evaluated."
        )


def _unused(given: Demonstrations, shared: EvaluationContext, setup: str, of: str) -> Iterator[str]:
    from pearl.lang.parser import parse
    from pearl.strategies.registry import NONE_SHOWN

    shown = {one.question for one in shared.setups[setup].demonstrations}
    if not shown:
        yield NONE_SHOWN
    elif unused := sum(parse(one).plan.question not in shown for one in given.refined):
        yield (
            f"{counted(unused, 'demonstration')}{of} not shown: the library lacks their actions, "
            "or they do not fit the prompt."
        )
