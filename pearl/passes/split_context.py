"""Runs steps on each part of a document that is longer than the window, and merges what they find.

What it does
    The merge has the step's own name, so later steps stay as they are. A list
    that is looked up in the document is put together by ``VALUES``, ``FLAT``
    and ``UNIQUE``; everything else by the model. Where an answer cannot be
    told part by part (yes or no, a number, a choice from a list that is
    given), the parts report in words, and the merge decides. A step that maps
    a list already is written once for each part, and its merge maps that list.

Why
    A document that does not fit would be cut by the endpoint, or refused.
    Here it is read in parts, by steps that stand in the plan: what each part
    gave is in the trace, and the trace runs again without knowing any window.

Before
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

After
    New actions:
    - MERGE_FIND_CHARACTER(FINDINGS, X) : FINDINGS holds, in order, what …

    1. parts = PARTS(CTX, 3) : Cut the document into parts that fit the window
    2. ross_parts = FIND_CHARACTER(each parts, "Ross") : Identify Ross
    3. ross = MERGE_FIND_CHARACTER(ross_parts, "Ross") : Identify Ross

Safety
    Unsafe: the model reads the document in other pieces and merges them, so
    the answer may be another one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

from pearl.lang.ast import (
    DOCUMENT,
    Action,
    Arg,
    Items,
    Literal,
    Mode,
    Param,
    Parsed,
    Plan,
    Prompt,
    Ref,
    Step,
    Template,
    step_refs,
)
from pearl.lang.builtins import label
from pearl.lang.diagnostics import Safety
from pearl.lang.library import Library
from pearl.lang.values import Type
from pearl.lint.rules.base import PlanView
from pearl.passes.base import Applied, Pass, sound

FINDINGS = "FINDINGS"
"""The parameter of a merge that takes what the parts gave."""

_CUT = "PARTS"

_REPORT = (
    "Report what CTX, one part of a longer document, holds that bears on the task below, with "
    "names, figures and grounds; say so where it holds nothing. Other readers have the other "
    "parts, and the task is decided later from all reports. The task: {task}"
)
_MERGE = (
    "FINDINGS holds, in order, what the parts of one document, which the task below calls CTX, "
    "gave when each was read by itself. {act} Put together what they add to each other, say "
    "where they disagree, and pass over a part that only says it does not tell, unless all of "
    'them do. Below that, copy the lines of FINDINGS that start with "> " and show it best, at '
    "most six, each on a line of its own. The task: {task}"
)
_ANSWER = "Carry out the task for the whole document from them."
_JOIN = "Make one report of them, from which the task can be carried out later."
_MAPPED = " FINDINGS may hold what was found for other tasks of this kind: it has no part in this."


def split_context(wanted: Collection[str], parts: int, groups: Sequence[int] = ()) -> Pass:
    """The pass that runs some steps on parts of the document.

    Args:
        wanted: the steps' names; one that does not read the document where its
            action takes it stays as it is.
        parts: how many parts the document is cut into, at least 2.
        groups: where there are too many findings for one prompt, into how many
            groups they are merged first, and those again, and so on.
    """

    def apply(plan: Plan, library: Library) -> Applied:
        if not sound(plan):
            return Applied(plan)
        return _Split(plan, library.with_declared(plan.declares), parts, groups).apply(wanted)

    return Pass("split-context", Safety.UNSAFE, apply, __doc__)


def reading_place(step: Step, action: Action | None) -> int | None:
    """At which argument a step that a model carries out is given the whole document."""
    if action is None or not isinstance(action.body, Prompt):
        return None
    for place, (param, arg) in enumerate(zip(action.params, step.args, strict=False)):
        if param.name == DOCUMENT:
            return place if isinstance(arg, Ref) and arg.name == DOCUMENT else None
    return None


@dataclass
class _Split:
    """One plan being rewritten; ``library`` has its own actions too."""

    plan: Plan
    library: Library
    parts: int
    groups: Sequence[int]
    taken: set[str] = field(init=False)
    declares: list[Action] = field(init=False)

    def __post_init__(self) -> None:
        self.taken = {step.name for step in self.plan.steps}
        self.declares = list(self.plan.declares)

    def apply(self, wanted: Collection[str]) -> Applied:
        view = PlanView(Parsed(self.plan), self.library)
        steps: list[Step] = []
        notes: list[str] = []
        labels: str | None = None
        for index, step in enumerate(self.plan.steps):
            if step.action == _CUT and step.args == self._cutting("").args:
                labels = labels or step.name
            action = self.library.get(step.action)
            place = reading_place(step, action) if step.name in wanted else None
            if action is None or place is None:
                steps.append(step)
                continue
            mapped = next((ref for ref in step_refs(step) if ref.mode), None)
            if mapped:
                steps += self._unrolled(step, action, place, mapped)
            else:
                if labels is None:
                    labels = self.fresh("parts")
                    steps.append(self._cutting(labels))
                lists = any(_gives_list(view, index, arg) for arg in step.args)
                steps += self._mapped(step, action, place, labels, lists)
            notes.append(f"Ran {step.name} on {self.parts} parts of the document, and merged them.")
        plan = replace(self.plan, steps=tuple(steps), declares=tuple(self.declares))
        return Applied(plan, tuple(notes)) if notes else Applied(self.plan)

    def fresh(self, wanted: str) -> str:
        """A name that no step has."""
        names = chain([wanted], (f"{wanted}_{at}" for at in count(2)))
        name = next(one for one in names if one not in self.taken)
        self.taken.add(name)
        return name

    def _cutting(self, name: str) -> Step:
        note = "Cut the document into parts that fit the window"
        return Step(name, _CUT, (Ref(DOCUMENT), Literal(self.parts)), note)

    def _mapped(
        self, step: Step, action: Action, place: int, labels: str, lists: bool
    ) -> list[Step]:
        """A step over the parts, and what makes one output of the pairs it gives."""
        name = self.fresh(f"{step.name}_parts")
        args = _put(step.args, place, Ref(labels, Mode.EACH))
        first = replace(step, name=name, args=args, noqa=())
        if action.returns == "list" and not lists:
            return [first, *self._listed(step, name)]
        if action.returns not in ("text", "any"):
            first = replace(first, action=self._reporting(action))
        return [first, *self._merged(step, action, place, name)]

    def _listed(self, step: Step, found: str) -> list[Step]:
        each, every = self.fresh(f"{step.name}_lists"), self.fresh(f"{step.name}_all")
        return [
            Step(each, "VALUES", (Ref(found),), "Take the list that each part gave"),
            Step(every, "FLAT", (Ref(each),), "Make one list of them"),
            replace(step, action="UNIQUE", args=(Ref(every),), comments=()),
        ]

    def _merged(self, step: Step, action: Action, place: int, found: str) -> list[Step]:
        steps: list[Step] = []
        final = self._merging(action, "MERGE", action.returns, _ANSWER)
        for number in self.groups:
            words = action.returns in ("text", "any")
            joining = final if words else self._merging(action, "JOIN", "text", _JOIN)
            together = self.fresh(f"{step.name}_groups")
            cut = (Ref(found), Literal(number))
            steps.append(Step(together, "GROUPS", cut, "Group what the parts gave"))
            found = self.fresh(f"{step.name}_joined")
            args = _put(step.args, place, Ref(together, Mode.EACH_VALUES))
            steps.append(Step(found, joining, args, step.note))
        args = _put(step.args, place, Ref(found))
        return [*steps, replace(step, action=final, args=args, comments=())]

    def _unrolled(self, step: Step, action: Action, place: int, mapped: Ref) -> list[Step]:
        """A step that maps a list, once for each part; its merge maps the list again."""
        asks = mapped.mode.startswith("where")
        returns: Type = "bool" if asks else action.returns
        reading = action.name if returns in ("text", "any") else self._reporting(action)
        steps: list[Step] = []
        for at in range(1, self.parts + 1):
            args = tuple(_as_each(arg) for arg in step.args)
            args = _put(args, place, Literal(str(label(at, self.parts))))
            name = self.fresh(f"{step.name}_{at}")
            steps.append(replace(step, name=name, action=reading, args=args, noqa=()))
            step = replace(step, comments=())
        kind = "MERGE_WHERE" if asks else "MERGE_EACH"
        merging = self._merging(action, kind, returns, _ANSWER + _MAPPED)
        found = Items(tuple(Ref(one.name) for one in steps))
        return [*steps, replace(step, action=merging, args=_put(step.args, place, found))]

    def _reporting(self, action: Action) -> str:
        doc = _REPORT.format(task=_task(action))
        return self._declared(
            Action(f"REPORT_{action.name}", action.params, doc=doc, variadic=action.variadic)
        )

    def _merging(self, action: Action, kind: str, returns: Type, act: str) -> str:
        params = tuple(
            Param(FINDINGS) if param.name == DOCUMENT else param for param in action.params
        )
        doc = _MERGE.format(act=act, task=_task(action))
        return self._declared(
            Action(f"{kind}_{action.name}", params, returns, doc, variadic=action.variadic)
        )

    def _declared(self, action: Action) -> str:
        """The name under which the plan has this action; it is declared where it has not."""
        for at in count(1):
            named = action if at == 1 else replace(action, name=f"{action.name}_{at}")
            if named in self.declares:
                break
            own = {one.name for one in self.declares}
            if named.name not in own and self.library.get(named.name) is None:
                self.declares.append(named)
                break
        return named.name


def _task(action: Action) -> str:
    return " ".join(action.doc.split()) or action.signature


def _put(args: Sequence[Arg], place: int, arg: Arg) -> tuple[Arg, ...]:
    return (*args[:place], arg, *args[place + 1 :])


_EACH = {Mode.WHERE: Mode.EACH, Mode.WHERE_VALUES: Mode.EACH_VALUES}


def _as_each(arg: Arg) -> Arg:
    """An argument that gives its items one by one, where it would filter them."""
    match arg:
        case Ref():
            return _each_ref(arg)
        case Template():
            parts = (one if isinstance(one, str) else _each_ref(one) for one in arg.parts)
            return replace(arg, parts=tuple(parts))
        case Items():
            return replace(arg, items=tuple(_as_each(item) for item in arg.items))
        case _:
            return arg


def _each_ref(ref: Ref) -> Ref:
    return replace(ref, mode=_EACH.get(ref.mode, ref.mode))


def _gives_list(view: PlanView, index: int, arg: Arg) -> bool:
    """Whether an argument is a list, as far as it shows."""
    match arg:
        case Items():
            return True
        case Literal():
            return isinstance(arg.value, list)
        case Ref() if not arg.mode:
            source = view.defined.get(arg.name, index)
            return source < index and view.type_of(source) == "list"
        case _:
            return False
