"""Runs steps on each part of a document that is longer than the window, and merges what they find.

What it does
    The merge has the step's own name, so later steps stay as they are. A list
    that is looked up in the document is put together by ``VALUES``, ``FLAT``
    and ``UNIQUE``; everything else by the model. Where an answer cannot be
    told part by part (yes or no, a number, a choice from a list that is
    given), the parts report in words, and the merge decides. A step that maps
    a list already is written once for each part; ``BY_ITEM`` puts together what
    they gave for each item, and its merge maps that.

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

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise
from typing import TypeGuard

from pearl.lang import ast
from pearl.lang.builtins import label
from pearl.lang.diagnostics import Safety
from pearl.lang.library import Library
from pearl.lang.text import free_name, one_line
from pearl.lang.values import Type
from pearl.lint.rules.base import PlanView
from pearl.passes.base import Applied, Pass

FINDINGS = "FINDINGS"
"""The parameter of a merge that takes what the parts gave."""

_CUT = "Cut the document into parts that fit the window"
_WORDS = ("text", "any")
CONDENSE = ast.Action(
    "CONDENSE_FINDINGS",
    (ast.Param(FINDINGS),),
    "text",
    "FINDINGS holds, in order, some of what one step of a longer plan gave. Make one shorter "
    "report of it, from which a later step can be carried out: keep names, figures and what each "
    "belongs to, say what is repeated once, and add nothing.",
)

GROUP_NOTE, CONDENSE_NOTE = "Group what {} gave", "Make one report of each group of what {} gave"

_REPORT = (
    "Report what CTX, one part of a longer document, holds that bears on the task below, with "
    "names, figures and grounds; say so where it holds nothing. Other readers have the other "
    "parts, and the task is decided later from all reports. The task: {task}"
)
_MERGE = (
    "FINDINGS holds, in order, what the parts of one document, which the task below calls CTX, "
    "gave when each was read by itself. {act} Put together what they add to each other, say "
    "where they disagree, and pass over a part that only says it does not tell, unless all of "
    "them do. The task: {task}"
)
_ANSWER = "Carry out the task for the whole document from them."
_JOIN = "Make one report of them, from which the task can be carried out later."


def split_context(names: Collection[str], parts: int, groups: Sequence[int] = ()) -> Pass:
    """The pass that runs some steps on parts of the document.

    Args:
        names: the steps' names; a step that is not given the whole document
            stays as it is.
        parts: how many parts the document is cut into, at least 2.
        groups: where there are too many findings for one prompt, the number of
            groups into which they are merged first, then that of the next round, and so on.
    """

    def rewrite(plan: ast.Plan, library: Library) -> Applied:
        return _Split(plan, library, parts, groups).rewrite(names)

    return Pass("split-context", Safety.UNSAFE, rewrite, __doc__)


def condense(plan: ast.Plan, name: str, groups: Sequence[int], steps: Collection[str]) -> ast.Plan:
    """The plan with a long output condensed for some steps that take it whole.

    Args:
        plan: a sound plan.
        name: the step that gives it.
        groups: the number of groups into which its items or lines are put, of each of which a
            model makes one report; then that of the next round, and so on.
        steps: the names of the steps that take the condensed output; others take it as it is.
    """
    split = _Split(plan, Library((), {}).with_declared(plan.declares), 1, ())
    action, last = split._declared(CONDENSE), name
    added: list[ast.Step] = []
    for number in groups:
        together, joined = split._fresh(f"{name}_groups"), split._fresh(f"{name}_condensed")
        cut = (ast.Ref(last), ast.Literal(number))
        each = (ast.Ref(together, ast.Mode.EACH_VALUES),)
        added.append(ast.Step(together, "GROUPS", cut, GROUP_NOTE.format(last)))
        added.append(ast.Step(joined, action, each, CONDENSE_NOTE.format(name)))
        last = joined

    def taken(ref: ast.Ref) -> ast.Ref:
        # Beside the whole, a step may go over the items.
        whole = ref.name == name and ref.mode is ast.Mode.PLAIN
        return replace(ref, name=last) if whole else ref

    rewritten: list[ast.Step] = []
    for step in plan.steps:
        args = tuple(ast.map_refs(arg, taken) for arg in step.args)
        if step.name in steps and args != step.args:
            rewritten += added
            added, step = [], replace(step, args=args)
        rewritten.append(step)
    return replace(plan, steps=tuple(rewritten), declares=tuple(split.declares))


def join_outputs(plan: ast.Plan, name: str, library: Library) -> tuple[ast.Plan, list[str]] | None:
    """The plan with a new step that puts together the outputs of several steps for one step.

    In a list, what stands between the outputs goes along. A text stays in the step, with the names
    of the outputs in it.

    Args:
        plan: a sound plan.
        name: the step.
        library: the actions, with the plan's own.

    Returns:
        The plan, and the names of the steps whose outputs the new step takes; None where the step
        runs over items, or none of its lists, texts and repeated arguments has several outputs.
    """
    step = next(step for step in plan.steps if step.name == name)
    action = library.get(step.action)
    if action is None or ast.mapped(ast.step_refs(step)):
        return None
    fresh = ast.Ref(free_name(f"{name}_given", {step.name for step in plan.steps}))
    last = len(action.params) - 1
    args, joined = list(step.args), list[ast.Arg]()
    # Of arguments that repeat, all from the first output to the last.
    several = [at for at, arg in enumerate(args) if at >= last and _is_output(arg)]
    if action.variadic and len(several) > 1 and action.params[last].type in _WORDS:
        joined = args[several[0] : several[-1] + 1]
        args[several[0] : several[-1] + 1] = [fresh]
    for at, arg in enumerate(step.args if not joined else ()):
        outputs = [*dict.fromkeys(filter(_is_output, ast.refs(arg)))]
        if len(outputs) < 2:
            continue
        if isinstance(arg, ast.Items):
            joined, args[at] = [*_flat(arg)], ast.Items((fresh,))
        elif isinstance(arg, ast.Template):
            names = [part.name if part in outputs else part for part in arg.parts]
            joined, args[at] = [*outputs], ast.as_arg([*names, "\n", fresh])
        break
    if not joined:
        return None
    named = (ast.Template((f"{arg.name}: ", arg)) if _is_output(arg) else arg for arg in joined)
    note = f"Put together what {name} is given"
    together = ast.Step(fresh.name, "CONCAT", tuple(named), note)
    at = plan.steps.index(step)
    steps = (*plan.steps[:at], together, replace(step, args=tuple(args)), *plan.steps[at + 1 :])
    return replace(plan, steps=steps), [ref.name for ref in ast.step_refs(together)]


def _flat(arg: ast.Arg) -> Iterator[ast.Arg]:
    """The items of nested lists, in order."""
    if not isinstance(arg, ast.Items):
        yield arg
        return
    for item in arg.items:
        yield from _flat(item)


def _is_output(arg: object) -> TypeGuard[ast.Ref]:
    return isinstance(arg, ast.Ref) and arg.mode is ast.Mode.PLAIN and arg.name != ast.DOCUMENT


def reading_place(step: ast.Step, action: ast.Action | None) -> int | None:
    """The index of the argument that gives a step the whole document; None where there is none, or
    where no model carries the step out."""
    if action is None or not isinstance(action.body, ast.Prompt):
        return None
    for place, (param, arg) in enumerate(zip(action.params, step.args, strict=False)):
        if param.name == ast.DOCUMENT:
            return place if isinstance(arg, ast.Ref) and arg.name == ast.DOCUMENT else None
    return None


class _Split:
    """One plan being rewritten; ``library`` also has the actions that the plan declares."""

    def __init__(self, plan: ast.Plan, library: Library, parts: int, groups: Sequence[int]) -> None:
        self.plan = plan
        self.library = library
        self.parts = parts
        self.groups = groups
        self.used = {step.name for step in plan.steps}
        self.declares = list(plan.declares)

    def rewrite(self, names: Collection[str]) -> Applied:
        view = PlanView(ast.Parsed(self.plan), self.library)
        steps: list[ast.Step] = []
        notes: list[str] = []
        labels = ""
        cut = ast.Step("", "PARTS", (ast.Ref(ast.DOCUMENT), ast.Literal(self.parts)), _CUT)
        for index, step in enumerate(self.plan.steps):
            if (step.action, step.args) == (cut.action, cut.args):
                labels = labels or step.name
            action = self.library.get(step.action)
            place = reading_place(step, action) if step.name in names else None
            if action is None or place is None:
                steps.append(step)
                continue
            if mapped := ast.mapped(ast.step_refs(step)):
                steps += self._unrolled(step, action, place, mapped)
            else:
                if not labels:
                    labels = self._fresh("parts")
                    steps.append(replace(cut, name=labels))
                lists = "list" in (view.type_of_argument(arg, index) for arg in step.args)
                steps += self._mapped(step, action, place, labels, lists)
            notes.append(f"Ran {step.name} on {self.parts} parts of the document, and merged them.")
        plan = replace(self.plan, steps=tuple(steps), declares=tuple(self.declares))
        return Applied(plan, tuple(notes)) if notes else Applied(self.plan)

    def _fresh(self, stem: str) -> str:
        """A name that no step has."""
        name = free_name(stem, self.used)
        self.used.add(name)
        return name

    def _mapped(
        self, step: ast.Step, action: ast.Action, place: int, labels: str, lists: bool
    ) -> list[ast.Step]:
        """A step over the parts, and the steps that make one output of the pairs it gives."""
        name = self._fresh(f"{step.name}_parts")
        args = _put(step.args, place, ast.Ref(labels, ast.Mode.EACH))
        first = replace(step, name=name, args=args, noqa=())
        if action.returns == "list" and not lists:
            each, every = self._fresh(f"{step.name}_lists"), self._fresh(f"{step.name}_all")
            return [
                first,
                ast.Step(each, "VALUES", (ast.Ref(name),), "Take the list that each part gave"),
                ast.Step(every, "FLAT", (ast.Ref(each),), "Make one list of them"),
                replace(step, action="UNIQUE", args=(ast.Ref(every),), comments=()),
            ]
        if action.returns not in _WORDS:
            first = replace(first, action=self._reporting(action))
        return [first, *self._merged(step, action, place, name)]

    def _merged(self, step: ast.Step, action: ast.Action, place: int, name: str) -> list[ast.Step]:
        steps: list[ast.Step] = []
        final = joining = self._merging(action, "MERGE", action.returns, _ANSWER)
        for number in self.groups:
            if action.returns not in _WORDS:
                joining = self._merging(action, "JOIN", "text", _JOIN)
            together = self._fresh(f"{step.name}_groups")
            cut = (ast.Ref(name), ast.Literal(number))
            steps.append(ast.Step(together, "GROUPS", cut, "Group what the parts gave"))
            name = self._fresh(f"{step.name}_joined")
            args = _put(step.args, place, ast.Ref(together, ast.Mode.EACH_VALUES))
            steps.append(ast.Step(name, joining, args, step.note))
        args = _put(step.args, place, ast.Ref(name))
        return [*steps, replace(step, action=final, args=args, comments=())]

    def _unrolled(
        self, step: ast.Step, action: ast.Action, place: int, mapped: ast.Ref
    ) -> list[ast.Step]:
        """A step that maps a list, once for each part; its merge maps the list again."""
        asks = mapped.mode.startswith("where")
        returns: Type = "bool" if asks else action.returns
        reading = action.name if returns in _WORDS else self._reporting(action)
        each = tuple(ast.map_refs(arg, _as_each) for arg in step.args)
        steps: list[ast.Step] = []
        for at in range(1, self.parts + 1):
            args = _put(each, place, ast.Literal(str(label(at, self.parts))))
            name = self._fresh(f"{step.name}_{at}")
            steps.append(replace(step, name=name, action=reading, args=args, noqa=()))
            step = replace(step, comments=())
        names = [part.name for part in steps]
        final = joining = self._merging(action, "MERGE", returns, _ANSWER)
        for number in self.groups:
            if returns not in _WORDS:
                joining = self._merging(action, "JOIN", "text", _JOIN)
            ends = [round(at * len(names) / number) for at in range(number + 1)]
            groups = [names[start:end] for start, end in pairwise(ends)]
            names = []
            for group in groups:
                steps += self._by_item(step, place, mapped, group, joining)
                names.append(steps[-1].name)
        steps += self._by_item(step, place, mapped, names, final)
        if mapped.mode is ast.Mode.EACH:
            return [*steps[:-1], replace(steps[-1], name=step.name)]
        items, answers = ast.Ref(mapped.name), ast.Ref(steps[-1].name)
        if asks:
            kept = replace(step, action="KEEP_ITEMS", args=(items, answers))
            return [*steps, kept]
        keys = self._fresh(f"{step.name}_keys")
        return [
            *steps,
            ast.Step(keys, "KEYS", (items,), f"Take the keys of {mapped.name}"),
            replace(step, action="BY_ITEM", args=(ast.Ref(keys), answers)),
        ]

    def _by_item(
        self, step: ast.Step, place: int, mapped: ast.Ref, names: Sequence[str], merging: str
    ) -> list[ast.Step]:
        """Steps that merge, for each item that a step runs over, what several steps gave for it."""
        together = self._fresh(f"{step.name}_by_item")
        own = ast.Ref(together, ast.Mode.EACH)
        gathered = (ast.Ref(mapped.name), *map(ast.Ref, names))
        args = tuple(ast.map_refs(arg, lambda ref: own if ref.maps else ref) for arg in step.args)
        args = _put(args, place, ast.Ref(together, ast.Mode.EACH_VALUES))
        name = self._fresh(f"{step.name}_merged")
        return [
            ast.Step(together, "BY_ITEM", gathered, "Put together what was found for each item"),
            replace(step, name=name, action=merging, args=args, comments=(), noqa=()),
        ]

    def _reporting(self, action: ast.Action) -> str:
        doc, name = _REPORT.format(task=_task(action)), f"REPORT_{action.name}"
        return self._declared(ast.Action(name, action.params, doc=doc, variadic=action.variadic))

    def _merging(self, action: ast.Action, kind: str, returns: Type, act: str) -> str:
        params = tuple(
            ast.Param(FINDINGS) if param.name == ast.DOCUMENT else param for param in action.params
        )
        doc = _MERGE.format(act=act, task=_task(action))
        name = f"{kind}_{action.name}"
        return self._declared(ast.Action(name, params, returns, doc, variadic=action.variadic))

    def _declared(self, action: ast.Action) -> str:
        """The name of an action in the plan, which declares it unless it does so already."""
        for at in count(1):
            named = action if at == 1 else replace(action, name=f"{action.name}_{at}")
            if named in self.declares:
                break
            own = {declared.name for declared in self.declares}
            if named.name not in own and self.library.get(named.name) is None:
                self.declares.append(named)
                break
        return named.name


def _task(action: ast.Action) -> str:
    return one_line(action.doc) or action.signature


def _put(args: Sequence[ast.Arg], place: int, arg: ast.Arg) -> tuple[ast.Arg, ...]:
    return (*args[:place], arg, *args[place + 1 :])


def _as_each(ref: ast.Ref) -> ast.Ref:
    """A reference with ``each`` in place of ``where``."""
    return replace(ref, mode=ast.Mode(ref.mode.replace("where", "each")))
