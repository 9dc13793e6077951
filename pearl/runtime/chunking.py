"""Rewrites plans whose steps do not fit the model's window (docs/context.md).

Before steps run, `fit_plan` has them read the document in parts and merge the findings. During a
run, `condense_long` has outputs condensed that are too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import ceil
from types import MappingProxyType
from typing import TypeAlias

from pearl.lang.ast import (
    DOCUMENT,
    Action,
    Arg,
    Literal,
    Plan,
    Prompt,
    Ref,
    Step,
    SubPlan,
    Template,
    map_refs,
    refs,
    step_refs,
)
from pearl.lang.builtins import Given, read_name
from pearl.lang.builtins import groups as group_items
from pearl.lang.library import Library
from pearl.lang.source import Source, Span
from pearl.lang.values import Pairs, Value, as_text
from pearl.passes.split_context import (
    CONDENSE,
    CONDENSE_NOTE,
    FINDINGS,
    GROUP_NOTE,
    condense,
    join_outputs,
    reading_place,
    split_context,
)
from pearl.prompts.calls import ExecuteStep
from pearl.retrieval.retriever import smallest_excerpt
from pearl.retrieval.text_splitter import enough_parts
from pearl.runtime.binding import BindError, items_of, most_items
from pearl.runtime.context import SHARE, Context, ContextError
from pearl.runtime.fit_to_window import (
    NOTHING,
    WRAPPED,
    Decision,
    fits_window,
    passages_for,
    size_of,
    size_without_document,
    too_long,
)

_NAMED = 64
"""The tokens by which a prompt says which step gave a long value."""

_Draft: TypeAlias = tuple[ExecuteStep, int]
"""A step's call, as far as it is known before earlier steps have run, without its document and
without their outputs; and the tokens allowed for those outputs."""


def _allowed(context: Context) -> int:
    """The tokens that a prompt keeps free for each earlier output.

    They are those of a whole reply, and in a large window more, as a list may have several replies.
    """
    return max(context.free + WRAPPED, (context.limit or 0) // (2 * SHARE))


def _known_text(arg: Arg) -> Iterator[str]:
    match arg:
        case Literal():
            yield as_text(arg.value)
        case Template():
            yield from (part for part in arg.parts if isinstance(part, str))
        case Ref():
            return
        case _:
            for item in arg.items:
                yield from _known_text(item)
                yield "\n"


def fit_plan(
    plan: Plan,
    start: int,
    document: Source,
    library: Library,
    context: Context,
    values: Mapping[str, Value] = MappingProxyType({}),
    inside: frozenset[str] = frozenset(),
) -> tuple[Plan, Decision | None]:
    """Split steps that the whole document does not fit, as the policy says.

    Args:
        plan: a checked plan.
        start: the number of its steps that have run; they stay as they are.
        document: what ``CTX`` is.
        library: the actions, without the plan's own.
        context: the window, and the policy.
        values: outputs that are known by now, where one was longer than expected.
        inside: names of the action whose plan it is, and of those around it; it is not split then.

    Returns:
        The plan with steps that read parts and merge the findings, and the decision for the
        journal; or the plan as it is, and None.

    Raises:
        ContextError: a step does not fit, and the policy is ``full``, the plan is an action's,
            neither parts nor passages would help, or there are more parts than a step runs over;
            or the plan's own words in a step are too long.
    """
    if context.limit is None:
        return plan, None
    fitting = _Fitting(plan, start, document, library, context, values)
    for step in plan.steps[start:]:
        fitting.check_inside(step, inside)
    total = size_of(document, context.count)
    drafts = fitting.reading(total)
    if context.policy == "retrieve":
        for name, (call, extra) in drafts.items():
            if not fits_window(call, total, context):
                fitting.check_passages(name, call, extra)
        return plan, None
    if document.documents:
        fitting.check_documents()
    long = [
        name
        for name, (call, extra) in drafts.items()
        if not fits_window(call, total + extra, context)
    ]
    if not long:
        return plan, None
    if context.policy == "full" or inside:
        call, extra = drafts[long[0]]
        size = size_without_document(call, context) + extra
        raise ContextError(too_long(total, size, context, call), long[0])
    # Under ``chunk`` all steps read the same parts, so that they share the prompts' prefixes.
    split = list(drafts) if context.policy == "chunk" else long
    number, groups = fitting.parts(split)
    decision = {"document": total, **context.facts, "parts": number, "steps": split}
    return split_context(split, number, groups).apply(plan, library).plan, decision


@dataclass(frozen=True)
class _Fitting:
    """A plan and what is known of its run, as `fit_plan` takes them. Its checks raise a
    `ContextError`."""

    plan: Plan
    start: int
    document: Source
    library: Library
    context: Context
    values: Mapping[str, Value]

    @cached_property
    def actions(self) -> Library:
        """The actions, with the plan's own."""
        return self.library.with_declared(self.plan.declares)

    def asking(self) -> Iterator[tuple[Step, Action]]:
        """The steps to run that ask a model, with their actions."""
        for step in self.plan.steps[self.start :]:
            action = self.actions.get(step.action)
            if action is not None and isinstance(action.body, Prompt):
                yield step, action

    def draft(self, step: Step, action: Action, place: int | None, omitted: float = 0.0) -> _Draft:
        """What is known of a step's call before the plan runs.

        ``place`` is the index of the argument that is the document, or the findings to merge, or
        None; ``omitted`` is the share of the document that is left out, where the step reads a
        part.
        """
        arguments: list[tuple[str, Value]] = []
        extra = 0
        for at, arg in enumerate(step.args):
            if at != place:
                name = action.params[at].name if at < len(action.params) else f"S{at}"
                arguments.append((name, "".join(_known_text(arg))))
                others = (ref for ref in refs(arg) if ref.name != DOCUMENT)
                extra += sum(max(self.known_size(ref), _allowed(self.context)) for ref in others)
        reads = place is not None and action.params[place].name == DOCUMENT
        document = NOTHING if reads else None
        return ExecuteStep(document, action, step, tuple(arguments), omitted), extra

    def known_size(self, ref: Ref) -> int:
        """The tokens of an output, or of its longest item where the step runs over them; 0 where
        the output is not known, or the step cannot take it."""
        if ref.name not in self.values:
            return 0
        parts = [self.values[ref.name]]
        try:
            parts = [item.value for item in items_of(ref, self.values)] if ref.maps else parts
        except BindError:
            return 0
        return max((self.context.count(as_text(part)) for part in parts), default=0) + _NAMED

    def check_inside(self, step: Step, inside: frozenset[str]) -> None:
        """Make sure that the steps of an action's own plan fit, and those of the actions within
        it; ``inside`` is as in `fit_plan`."""
        action = self.actions.get(step.action)
        if action is None or not isinstance(action.body, SubPlan) or action.name in inside:
            return
        args = zip(action.params, step.args, strict=False)
        literals = {param.name: arg for param, arg in args if isinstance(arg, Literal)}
        # In the plan of an action CTX is the whole document, whatever its argument is.
        literals.pop(DOCUMENT, None)

        def value(ref: Ref) -> Arg:
            return ref if ref.mode else literals.get(ref.name, ref)

        own, context = action.body.plan, self.context
        steps = (
            replace(each, args=tuple(map_refs(arg, value) for arg in each.args))
            for each in own.steps
        )
        # An action's plan is not split, so that the error must not advise another policy.
        context = replace(context, policy="auto") if context.policy == "full" else context
        plan, inside = replace(own, steps=tuple(steps)), inside | {action.name}
        try:
            fit_plan(plan, 0, self.document, self.actions, context, inside=inside)
        except ContextError as error:
            raise ContextError(f"its step {error.step} cannot run: {error}", step.name) from None

    def reading(self, total: int) -> dict[str, _Draft]:
        """The drafts of the calls that read the whole document, by their steps' names.

        A `ContextError` where the plan's own words in a step are too long, whether it reads the
        document or not; the document's ``total`` tokens are among them where it is given as a text.
        """
        drafts: dict[str, _Draft] = {}
        for step, action in self.asking():
            place = reading_place(step, action)
            call, extra = self.draft(step, action, place)
            given = any(arg == Ref(DOCUMENT) for at, arg in enumerate(step.args) if at != place)
            if not fits_window(call, total * given, self.context):
                itself = size_without_document(call, self.context) + total * given
                raise ContextError(too_long(None, itself, self.context, call), step.name)
            if place is not None:
                drafts[step.name] = call, extra
        return drafts

    def check_passages(self, name: str, call: ExecuteStep, extra: int) -> None:
        """Make sure that a step whose prompt the document does not fit has room for a passage,
        whatever the outputs of earlier steps are."""
        document, context = self.document, self.context
        call = replace(call, document=document)
        if extra:
            # Which passages are relevant depends on outputs that are not known yet.
            room = context.room - size_without_document(replace(call, omitted=0.5), context)
            has_room = room >= smallest_excerpt(document.text, context.count)
        else:
            has_room = passages_for(call, context) is not None
        if not has_room:
            total, size = size_of(document, context.count), size_without_document(call, context)
            raise ContextError(too_long(total, size, context, call), name)

    def check_documents(self) -> None:
        """Make sure that each of several documents fits the steps that read it as a whole, as it
        cannot be read in parts."""
        document, context = self.document, self.context
        listing = {step.name for step in self.plan.steps if step.action == "DOCUMENTS"}
        for step, action in self.asking():
            for place, (param, arg) in enumerate(zip(action.params, step.args, strict=False)):
                spans: list[Span | None] = []
                if param.name == DOCUMENT and isinstance(arg, Literal):
                    spans = [document.named(read_name(as_text(arg.value)))]
                elif param.name == DOCUMENT and isinstance(arg, Ref) and arg.maps:
                    spans = [*document.documents.values()] if arg.name in listing else []
                texts = [document.at(span) for span in spans if span]
                if not (total := max(map(context.count, texts), default=0)):
                    continue
                call, _ = self.draft(step, action, place)
                if not fits_window(call, total, context):
                    reason = too_long(total, size_without_document(call, context), context, call)
                    reason = f"One of several documents is not read in parts. {reason}"
                    raise ContextError(reason, step.name)

    def parts(self, split: Sequence[str]) -> tuple[int, list[int]]:
        """How many parts the document needs, and the numbers of groups in which findings are
        merged; a `ContextError` where the window is too small, or there are too many parts."""
        plan, context = self.plan, self.context
        trial = replace(self, plan=split_context(split, 2, (2,)).apply(plan, self.library).plan)
        readers: dict[str, int] = {}
        mergers: dict[str, int] = {}
        for step in trial.plan.steps[self.start :]:
            action = trial.actions.get(step.action)
            if action is None or action.is_builtin:
                continue
            for place, param in enumerate(action.params):
                reads = param.name == DOCUMENT and place < len(step.args)
                if reads or param.name == FINDINGS:
                    call, extra = trial.draft(step, action, place, 0.5 if reads else 0.0)
                    sizes = readers if reads else mergers
                    sizes[step.name] = size_without_document(call, context) + extra
        reading, merging = (max(sizes.values(), default=0) for sizes in (readers, mergers))

        def enough(size: int) -> int | None:
            return enough_parts(self.document.text, context.room - size, context.count)

        number = enough(reading)
        # Two findings that are longer than a whole reply are cut (`fit_call`), but not below that.
        asked, left = context.free + WRAPPED, context.room - merging
        merged_at_once = max(left // self.finding(), min(2, left // asked))
        if number is None or (merging and merged_at_once < 2):
            what = "read the document in parts"
            if number is None:
                name, size = next(each for each in readers.items() if enough(each[1]) is None)
                told = f"a step itself takes {size:,}"
            else:
                most = context.room - 2 * asked
                name, size = next(each for each in mergers.items() if each[1] > most)
                what = "merge what the parts of the document gave"
                told = f"a merge itself takes {size:,}, each of what it merges up to {asked:,}"
            raise ContextError(
                f"The window of {context.limit:,} tokens is too small to {what}: {told}, and "
                f"{context.free:,} are kept free for the reply. "
                f"Use {'--context retrieve or ' if reading < context.room else ''}a model with a "
                "longer window.",
                owner(name, plan),
            )
        number = max(2, number)
        # Parts that earlier steps have read are used again if there are enough of them.
        earlier = [
            step.args[1].value
            for step in plan.steps[: self.start]
            if step.action == "PARTS" and isinstance(step.args[1], Literal)
        ]
        serving = [parts for parts in earlier if isinstance(parts, int) and parts >= number]
        number = min(serving, default=number)
        if number > (most := most_items()):
            raise ContextError(
                f"The document would be read in {number:,} parts, and a step runs over {most:,} at "
                "most: use --context retrieve or a model with a longer window, or set PEARL_WIDTH "
                "higher.",
                split[0],
            )
        groups: list[int] = []
        count = number if merging else 0
        while count > merged_at_once:
            count = ceil(count / merged_at_once)
            groups.append(count)
        return number, groups

    def finding(self) -> int:
        """The tokens that a merge keeps free for each finding.

        They are those of a whole reply, or a quarter more than the longest finding so far, where an
        endpoint has given longer replies than were asked for.
        """
        own = {step.name for step in self.plan.steps}
        added = [value for name, value in self.values.items() if name not in own]
        pairs = chain.from_iterable(value for value in added if isinstance(value, Pairs))
        texts = (item for _, item in pairs if isinstance(item, str))
        longest = max(map(self.context.count, texts), default=0)
        return max(self.context.free, longest * 5 // 4) + WRAPPED


def owner(name: str, plan: Plan) -> str:
    """The name of the plan's step to which a step belongs that was added for its parts."""
    names = (step.name for step in plan.steps)
    return max((own for own in names if f"{name}_".startswith(f"{own}_")), key=len, default=name)


def condense_long(
    plan: Plan,
    start: int,
    step: Step,
    values: Mapping[str, Value],
    library: Library,
    context: Context,
    *,
    beside: bool = False,
) -> tuple[Plan, Decision] | None:
    """Add steps that condense the long outputs for which a step's prompt did not fit; if no output
    is long by itself, add a step that joins them, whose output is condensed once it has run.

    Args:
        plan: the plan as it was before parts were planned.
        start: the number of its steps that stay as they are.
        step: the step whose prompt did not fit, as it was after parts were planned.
        values: the outputs of the plan's steps.
        library: the actions, without the plan's own.
        context: the window.
        beside: whether to condense texts beside the document too, no part of which is small enough.

    Returns:
        The plan with steps that condense outputs, group by group until a prompt has room for the
        rest, and the numbers of groups; or with a step that joins outputs, and their names. None
        where that does not help: no output is too long and they cannot be joined, or the prompt
        that condenses them has no room for two reports.
    """
    if context.limit is None or context.policy == "full":
        return None
    report, actions = context.free + WRAPPED, library.with_declared(plan.declares)
    # Builtins and functions need the items themselves, and steps that ran keep their inputs.
    asked = {
        own.name
        for own in plan.steps[start:]
        if own.name not in values
        and (action := actions.get(own.action))
        and isinstance(action.body, Prompt)
    }
    # An output that was condensed is not condensed again.
    groupings = {own.name: own.args[0] for own in plan.steps if own.action == "GROUPS"}
    made = {arg.name for arg in groupings.values() if isinstance(arg, Ref)}
    made |= {own.name for own in plan.steps if any(ref.name in groupings for ref in step_refs(own))}
    decision: Decision = {}
    for name in dict.fromkeys(ref.name for ref in step_refs(step) if not ref.maps):
        value = values.get(name)
        known = name in {own.name for own in plan.steps} and name not in made
        # Beside a long text, the document can be cut into smaller parts.
        reads = any(ref.name == DOCUMENT for ref in step_refs(step)) and not beside
        if not known or not isinstance(value, list | Pairs if reads else str | list | Pairs):
            continue
        room = context.room - size_without_document(_condensing(name), context)
        if context.count(as_text(value)) <= _allowed(context) or room < 2 * report:
            continue
        parts = value.items if isinstance(value, Pairs) else value
        items = len(parts.splitlines() if isinstance(parts, str) else parts)
        fitting = (at for at in range(1, items + 1) if _groups_fit(value, at, room, context))
        groups = [next(fitting, 0)]
        if not groups[0]:
            continue
        while groups[-1] * report > _allowed(context) and groups[-1] > 1:
            groups.append(ceil(groups[-1] / (room // report)))
        condensed = condense(plan, name, groups, asked)
        if condensed != plan:
            plan, decision[name] = condensed, groups
    if decision:
        return plan, {"condensed": decision, "window": context.limit}
    joined = join_outputs(plan, step.name, actions) if step.name in asked else None
    if joined is None or sum(name in values for name in joined[1]) < 2:
        return None
    return joined[0], {"joined": joined[1], "window": context.limit}


def _condensing(name: str) -> ExecuteStep:
    """A call that condenses a group of a step's output, to measure its prompt."""
    # The names may get numbers, if others have them already.
    step = Step("", CONDENSE.name, (), CONDENSE_NOTE.format(name))
    group, origin = f"one of {name}_groups_99", GROUP_NOTE.format(f"{name}_condensed_99")
    outputs = ((group, "", f'the step "{origin}"'),)
    return ExecuteStep(
        None, CONDENSE, step, ((FINDINGS, ""),), written=(f"[{group}]",), outputs=outputs
    )


def _groups_fit(value: Value, number: int, room: int, context: Context) -> bool:
    """Whether each of ``number`` groups of an output fits ``room`` tokens."""
    grouped = group_items([Given(Literal(""), value), Given(Literal(number), number)])
    assert isinstance(grouped, Pairs)
    return all(context.count(as_text(group)) <= room for _, group in grouped.items)
