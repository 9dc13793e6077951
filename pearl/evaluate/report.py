"""An evaluation as a report: accuracy, statistical comparisons, plans, and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from statistics import fmean
from typing import Any

from pearl.evaluate.accuracy_tables import (
    Row,
    accuracy_chart,
    accuracy_point,
    accuracy_rows,
    accuracy_tables,
    in_parts,
    label_blocks,
    method_fields,
    method_rows,
    method_table,
    order_table,
    percent_chart,
    recorded_table,
    share_fields,
    shares,
    size_chart,
    spread_table,
)
from pearl.evaluate.results import (
    FAILED_CALLS,
    FAILED_TOKENS,
    Evaluation,
    Result,
    side_by_side,
)
from pearl.evaluate.statistics import MCNEMAR, compare, holm
from pearl.evaluate.supporting_facts import evidence_table, found_table
from pearl.lang.ast import Plan
from pearl.lang.errors import InputError
from pearl.lang.library import builtins, load_library
from pearl.lang.parser import parse
from pearl.lang.text import counted, one_line
from pearl.models.base import Usage
from pearl.models.tokens import dollars
from pearl.passes.split_context import FINDINGS
from pearl.report import FORMS
from pearl.report.document import (
    NONE,
    Block,
    Chart,
    Column,
    Point,
    Report,
    Series,
    Table,
    Text,
    build,
    counts,
    figure,
    number,
    pair,
    percent,
    points,
    probability,
    signed_span,
    times,
    words,
)
from pearl.strategies.baselines import DEFINITIONS
from pearl.strategies.pearl import ANSWER_FROM


def summarise(evaluation: Evaluation) -> Report:
    """The whole report of an evaluation.

    It has accuracy in total, with the calls and tokens of a question, and by split; comparisons
    with the first method; and, where the results have the data: answers and their evidence,
    accuracy by kind of question and by size of the library, consistency across orders of the
    options, plans, and calls, tokens and cost.
    """
    total, *others = overall_tables(evaluation)
    failed = tuple(line for line in failures(evaluation) if line not in evaluation.notes)
    blocks: list[Block | None] = [
        Text(evaluation.notes) if evaluation.notes else None,
        total,
        Text(failed) if failed else None,
        accuracy_chart(evaluation),
        spread_table(evaluation),
        planning_table(evaluation),
        *others,
        evidence_table(evaluation),
        found_table(evaluation),
        agents_table(evaluation),
        *comparison_tables(evaluation),
        *chain.from_iterable(
            # The same method, by one model against the others.
            comparison_tables(replace(evaluation, methods=group, groups=()))
            for group in evaluation.groups
            if len(evaluation.groups) > 1
        ),
        recorded_table(evaluation),
        size_chart(evaluation),
        *label_blocks(evaluation),
        order_table(evaluation),
        *plan_blocks(evaluation),
        *spending_blocks(evaluation),
    ]
    shown = tuple(block for block in blocks if block is not None)
    return Report(evaluation.title, evaluation.about, shown)


def render_report(evaluation: Evaluation, *others: Evaluation, form: str = "markdown") -> str:
    """The report that ``pearl report`` writes, with intervals and paired tests.

    Args:
        evaluation: what is reported on.
        others: evaluations of the same questions, which stand beside it.
        form: ``terminal``, ``markdown``, ``latex``, ``html`` or ``json``.

    Raises:
        InputError: there is no such form, or the evaluations cannot be compared.
    """
    if form not in FORMS:
        raise InputError(f"There is no form {form}: use one of {', '.join(FORMS)}.")
    return FORMS[form](summarise(side_by_side((evaluation, *others))))


_CAUSES = 4
"""How many of a method's different errors are named."""


def failures(evaluation: Evaluation) -> Iterator[str]:
    """For each method a sentence on how many questions failed, and the most frequent errors."""
    for method in evaluation.methods:
        errors = [result.error for result in evaluation.results_of(method)]
        causes = Counter(one_line(error) for error in errors if error)
        if causes:
            named = causes.most_common(_CAUSES)
            why = f": {named[0][0][:300]}"
            if len(causes) > 1:
                parts = [
                    f"{count:,} of them so: {cause[:300].rstrip('.')}" for cause, count in named
                ]
                if rest := causes.total() - sum(count for _, count in named):
                    parts.append(f"{rest:,} for other reasons")
                why = f", {'; '.join(parts)}."
            failed = counted(causes.total(), "question")
            yield f"{evaluation.name_of(method)}: {failed} could not be answered or scored{why}"


_two_digits = partial(number, digits=2)


_SPENT: Mapping[str, Column] = {
    "calls": figure("calls", "calls", _two_digits),
    "tokens": figure("tokens", "tokens", number),
    "cost": figure("cost", "cost", lambda cost: NONE if cost is None else dollars(1e6 * cost)),
    "seconds": figure(
        "seconds", "seconds", lambda seconds: NONE if seconds is None else f"{seconds:,.1f} s"
    ),
}
"""The columns of what a question takes, by their keys in `spending_rows`."""

_MARKS = {
    "none_fits": "no option fits", "guessed": "picked by words", "ungrounded": "no evidence",
}  # fmt: skip
"""The titles of columns that count weakly supported answers, by mark."""


def _marked(results: Sequence[Result], mark: str) -> int | None:
    """How many results have a mark; None where no result tells."""
    if mark != "ungrounded":
        return sum(result.measures.get(mark, 0) == 1 for result in results)
    known = [result for result in results if "grounded" in result.measures]
    if not known:
        return None
    return sum(not item.measures["grounded"] for item in known)


def overall_tables(evaluation: Evaluation) -> list[Table]:
    """Tables of accuracy in total, with what a question takes, and in each split.

    The first table has calls, tokens, cost and seconds where they are known. Other ways to count
    accuracy follow in a second table, where they differ from the first; without any calls they are
    in the first table.
    """
    total, *by_split = accuracy_tables(evaluation)
    rows = [
        {**row, **{key: spent[key] for key in (*_SPENT, *_MARKS)}}
        for row, spent in zip(accuracy_rows(evaluation), spending_rows(evaluation), strict=True)
    ]
    spent_on = {key for key in ("cost", "seconds") if any(row[key] is not None for row in rows)}
    # A model that counts no tokens reports 0, and then the cost is not known.
    spent_on |= {key for key in ("calls", "tokens") if any(row[key] for row in rows)}
    if "calls" not in spent_on:
        return [total, *by_split]
    if "tokens" not in spent_on:
        spent_on.discard("cost")
    count = evaluation.count()
    fields = [
        words("called", "method"),
        *counts(right="right", answered="answered"),
        *share_fields("of_asked", f"% of all {count:,}"),
        *counts(**{key: name for key, name in _MARKS.items() if any(row[key] for row in rows)}),
        *(field for key, field in _SPENT.items() if key in spent_on),
    ]
    note = (
        "Answered: an option is named, or an answer given that can be scored. "
        "A question without a result, or whose answer failed, is wrong. Intervals: bootstrap, "
        "10,000 resamples (Wilson's where all scores are equal). What a question takes is a mean "
        "over the method's results."
    )
    tries, spent = (
        round(sum(result.measures.get(key, 0) for result in evaluation.results))
        for key in (FAILED_CALLS, FAILED_TOKENS)
    )
    if any(row["none_fits"] for row in rows):
        note += " No option fits: what was found decides for none, right or wrong."
    if tries:
        note += f" Not in it: {counted(tries, 'failed call')}, which took {spent:,} tokens."
    if in_parts(evaluation):
        note += " Some scores are in parts: right counts the full ones, the share is a mean."
    first = build(total.title, fields, rows, note)
    if all(row["rows"] == row["answered"] == row["asked"] for row in rows):
        return [first, *by_split]
    title = f"Accuracy counted in three ways ({counted(count, 'question')})"
    return [first, replace(total, title=title), *by_split]


def planning_table(evaluation: Evaluation) -> Table | None:
    """The library and the demonstrations of each method that plans; None where none does."""
    keys = ("library", "actions", "demonstrations", "handlers")
    texts = evaluation.planned_with
    rows = method_rows(evaluation, lambda name: dict(zip(keys, texts.get(name, ()), strict=False)))
    note = "Actions: those that are no builtins. Demonstrations: as shown."
    return method_table("What methods plan with", [words(key, key) for key in keys], rows, note)


def agents_table(evaluation: Evaluation) -> Table | None:
    """How many questions CommaQA's agents were asked, and how many matched none of their templates;
    None where no agent was asked."""

    def row(method: str) -> Row:
        results = [item for item in evaluation.results_of(method) if "agent_calls" in item.measures]
        names = ("agent_calls", "agent_calls_unread", "hops_tried")
        sums = {name: sum(item.measures.get(name, 0) for item in results) for name in names}
        met = [item for item in results if item.measures.get("agent_calls_unread")]
        wrong = {"met": len(met), "met_wrong": sum(item.score < 1 for item in met)}
        return sums | wrong if results else {}

    fields = [
        *counts(agent_calls="asked of agents", agent_calls_unread="outside their language"),
        *counts(met="in so many questions", met_wrong="of them wrong", hops_tried="hops tried"),
    ]
    note = "Sums over all questions. Outside their language: no template of the agent reads it."
    return method_table("What agents were asked", fields, method_rows(evaluation, row), note)


def comparison_tables(evaluation: Evaluation) -> Iterator[Table]:
    """Tables that compare the other methods with the first one.

    They are on the questions that both have, in total and in each split; and, where some results
    are missing, on all questions, where a missing result counts as wrong.
    """
    first, *others = evaluation.methods
    if not others:
        return
    count, name = evaluation.count(), evaluation.name_of(first)
    fields = [
        words("called", "method"),
        *counts(questions="pairs", both_right="both right", only_first_right=f"only {name}"),
        *counts(only_this_right="only this one", neither_right="neither"),
        figure("difference", "points", points),
        pair(("difference_low", "difference_high"), "95 % interval", signed_span),
        figure("p", "p", probability),
        figure("p_holm", "Holm p", probability),
    ]
    rows, both = comparison_rows(evaluation), "on the questions both have"
    sentences = [
        "p: exact McNemar test, two-sided, on the questions that one of the two alone has right."
        if test == MCNEMAR
        else "p: paired sign-flip permutation test, two-sided, with 10,000 sets of signs."
        for test in dict.fromkeys(row["test"] for row in rows)
    ]
    sentences += ["Holm p: corrected for the comparisons of its table."] if rows[1:] else []
    sentences.append("Pairs: the questions compared.")
    sentences.append("Points: the difference in hundredths, with its bootstrap interval.")
    yield build(f"Compared with {name}, {both}", fields, rows, " ".join(sentences))
    if any(len(evaluation.results_of(method)) < count for method in evaluation.methods):
        every = counted(count, "question")
        title = f"Compared with {name}, over all {every}, one without a result wrong"
        yield build(title, fields, comparison_rows(evaluation, fill=True))
    for split in evaluation.asked if len(evaluation.asked) > 1 else ():
        title = f"Compared with {name} on {split or 'no split'}, {both}"
        yield build(title, fields, comparison_rows(evaluation, split))


def comparison_rows(
    evaluation: Evaluation, split: str | None = None, *, fill: bool = False
) -> list[Row]:
    """The numbers of `comparison_tables`, on one split or on all; with ``fill``, a question without
    a result counts as wrong."""
    empty: dict[Any, float] = {}
    if fill:
        keys = {(item.split, item.id) for item in evaluation.results if split in (None, item.split)}
        empty = dict.fromkeys(sorted(keys), 0.0)
        # Questions without a result of any method count as well.
        empty.update(((None, at), 0.0) for at in range(evaluation.count(split) - len(keys)))

    def scores(method: str) -> dict[Any, float]:
        results = evaluation.results_of(method, split)
        return {**empty, **{(result.split, result.id): result.score for result in results}}

    first, *others = evaluation.methods
    base = scores(first)
    compared = {method: compare(base, scores(method)) for method in others}
    corrected = iter(holm([result.p for result in compared.values() if result]))

    def row(method: str) -> Row:
        comparison = compared.get(method)
        if comparison is None:
            return {}
        return {
            "questions": comparison.count,
            "both_right": comparison.both,
            "only_first_right": comparison.only_first,
            "only_this_right": comparison.only_second,
            "neither_right": comparison.neither,
            **shares("difference", comparison.difference),
            "p": comparison.p,
            "p_holm": next(corrected),
            "test": comparison.test,
        }

    return method_rows(evaluation, row)


MOST_USED = 10
"""The most actions that are shown for a method."""


def plan_statistics(texts: Iterable[str]) -> Row:
    """Statistics of plans, without what Pearl itself adds to read a long document in parts.

    Returns:
        ``plans``, the number of plans with at least one step; ``unreadable``, of those without any;
        ``steps`` and ``distinct_actions``, the means per plan, None without plans; ``inventing``,
        the number of plans that declare an action; ``invented``, in how many plans each such action
        is declared; ``actions``, how many steps call each action, the most used first.
    """
    parsed = [_as_written(parse(text).plan) for text in texts]
    plans = [plan for plan in parsed if plan.steps]
    called = [Counter(step.action for step in plan.steps) for plan in plans]
    declared = [{action.name for action in plan.declares} for plan in plans]
    return {
        "plans": len(plans),
        "unreadable": len(parsed) - len(plans),
        "steps": fmean(counts.total() for counts in called) if plans else None,
        "distinct_actions": fmean(map(len, called)) if plans else None,
        "inventing": sum(map(bool, declared)),
        "invented": _by_count(name for names in declared for name in names),
        "actions": _by_count(name for counts in called for name in counts.elements()),
    }


def _as_written(plan: Plan) -> Plan:
    """A plan as the model wrote it, without the steps and actions that Pearl added."""
    own = {name for name, action in builtins().items() if "unlisted" in action.traits}
    own |= {new.name for new in plan.declares if any(p.name == FINDINGS for p in new.params)}
    return replace(
        plan,
        steps=tuple(step for step in plan.steps if step.action not in own),
        declares=tuple(
            new for new in plan.declares if new.name not in own and new.doc not in _definitions()
        ),
    )


@cache  # Loading the library takes longer than parsing a plan.
def _definitions() -> frozenset[str]:
    """The definitions of the actions that Pearl itself declares."""
    return frozenset({*DEFINITIONS, load_library("core").actions[ANSWER_FROM].doc})


def _by_count(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def plan_blocks(evaluation: Evaluation) -> Iterator[Table | Chart]:
    """How long plans are, and which actions they call."""

    def row(method: str) -> Row:
        results = evaluation.results_of(method)
        written = (result.plan for result in results if result.plan and not result.fallback)
        statistics = plan_statistics(written)
        fallback = sum(result.fallback for result in results) / max(1, len(results))
        return {**statistics, "fallback": fallback} if statistics["plans"] or fallback else {}

    rows = method_rows(evaluation, row)
    if not rows:
        return
    fields = [
        words("called", "method"),
        *counts(plans="plans"),
        *(counts(unreadable="without steps") if any(row["unreadable"] for row in rows) else []),
        figure("steps", "steps a plan", _two_digits),
        figure("distinct_actions", "distinct actions", _two_digits),
        figure("fallback", "no plan accepted", percent),
        *counts(inventing="plans that invent actions"),
        figure("invented", "actions invented", lambda value: number(len(value))),
    ]
    note = (
        "Means over the plans, failed questions' among them; no plan accepted: the share of the "
        "method's questions, which then count as no plans."
    )
    yield build("Plans", fields, rows, note)
    tops = {row["method"]: [*row["actions"].items()][:MOST_USED] for row in rows if row["plans"]}
    if not tops:
        return
    ranks = [
        {
            "rank": at + 1,
            "methods": {
                method: {"action": top[at][0], "steps": top[at][1]}
                for method, top in tops.items()
                if at < len(top)
            },
        }
        for at in range(max(map(len, tops.values())))
    ]
    fields = counts(rank="rank")
    fields += method_fields(
        evaluation, tops, lambda action: f"{action['action']} {action['steps']:,}", "left"
    )
    yield build("Most used actions, with the steps that call them", fields, ranks)
    method = max(rows, key=lambda row: row["plans"])["method"]
    bars = tuple(Point(action, float(count)) for action, count in tops[method])
    title = f"Most used actions of {evaluation.name_of(method)}"
    yield Chart("bars", title, (Series("", bars),), "steps that call them", digits=0)


def spending_blocks(evaluation: Evaluation) -> Iterator[Text | Table | Chart]:
    """Calls, tokens and cost per question, and a chart of them against accuracy; nothing where no
    call is recorded."""
    rows = spending_rows(evaluation)
    if not any(row["calls"] for row in rows):
        return
    fields = [
        words("called", "method"),
        figure("calls", "calls", _two_digits),
        figure("calls_multiple", "×", times),
    ]
    note = f"Means a question; multiples of {evaluation.name_of(evaluation.methods[0])}."
    tokens = any(row["tokens_read"] or row["tokens_written"] for row in rows)
    if tokens:
        fields += [
            *counts(tokens_read="tokens read", tokens_cached="of them cached"),
            *counts(tokens_written="tokens written"),
            figure("tokens_multiple", "× tokens", times),
        ]
        if any(row["cost"] is not None for row in rows):
            fields += [_SPENT["cost"], figure("cost_multiple", "× cost", times)]
        else:
            note += " No price is known, so there is no cost."
    if any(row["seconds"] is not None for row in rows):
        fields.append(_SPENT["seconds"])
        note += (
            " Seconds: from a question's beginning to its answer and its score, or failure, with "
            "others under way beside it; cached replies hardly take any."
        )
    yield build("Calls, tokens and cost a question", fields, rows, note)
    if not tokens:
        yield Text(("No tokens were reported: what answers take is given in calls alone.",))
    key, label = ("tokens", "tokens") if tokens else ("calls", "calls")
    priced = tokens and all(row["cost"] is not None for row in rows)
    if priced and any(row["cost"] for row in rows):
        key, label = "cost", "dollars"
    marks = [
        accuracy_point(row["called"], share, row[key])
        for row, share in zip(rows, accuracy_rows(evaluation), strict=True)
    ]
    title, x_label = f"{key.capitalize()} against accuracy", f"{label} a question"
    yield percent_chart("scatter", title, {"": marks}, "% of all questions", x_label)


def spending_rows(evaluation: Evaluation) -> list[Row]:
    """What each method takes per question with a result, as numbers: seconds, and cost in dollars,
    which is None where it is not known."""

    def row(method: str) -> Row:
        results = evaluation.results_of(method)
        count = len(results) or 1
        usage = sum((result.usage for result in results), Usage())
        costs = [result.cost for result in results if result.cost is not None]
        seconds = [item.measures["seconds"] for item in results if "seconds" in item.measures]
        return {
            "questions": len(results),
            **{mark: _marked(results, mark) for mark in _MARKS},
            "calls": sum(result.calls for result in results) / count,
            "tokens_read": usage.prompt_tokens / count,
            "tokens_cached": usage.cached_tokens / count,
            "tokens_written": usage.completion_tokens / count,
            "tokens": (usage.prompt_tokens + usage.completion_tokens) / count,
            "cost": sum(costs) / 1e6 / count if costs and len(costs) == len(results) else None,
            "seconds": sum(seconds) / len(seconds) if seconds else None,
        }

    rows = method_rows(evaluation, row)
    multiples = ("calls", "tokens", "cost")
    first = {key: rows[0][key] for key in multiples}
    for other in rows:
        for key in multiples:
            has_both = first[key] and other[key] is not None
            other[f"{key}_multiple"] = other[key] / first[key] if has_both else None
    return rows
