"""What a pass is, and what several of them need."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from pearl.lang import ast
from pearl.lang.diagnostics import Safety
from pearl.lang.graph import outputs, sinks
from pearl.lang.library import Library


@dataclass(frozen=True, slots=True)
class Applied:
    """What a pass made of a plan.

    Args:
        plan: the plan after it; the same object where nothing applied.
        notes: one sentence for each rewrite, naming the step; empty where
            nothing applied.
    """

    plan: ast.Plan
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite of plans.

    A pass that needs more than a plan and a library (a document's size, say)
    is made by a function that takes it and gives a `Pass`.

    Args:
        name: as users write it (``drop-unreachable``).
        safety: safe where it can change neither an answer nor the prompt of
            a call whose output reaches the answer.
        rewrite: takes a sound plan that has no errors, and the library it was
            checked against with the plan's own actions; changes neither.
        doc: the docstring of the module or of the function, which is its documentation.
    """

    name: str
    safety: Safety
    rewrite: Callable[[ast.Plan, Library], Applied]
    doc: str

    def apply(self, plan: ast.Plan, library: Library) -> Applied:
        """Rewrite a plan; one that is not `sound` comes back as it is.

        Args:
            plan: a plan that has no errors.
            library: what it was checked against, without the plan's own actions.
        """
        if not sound(plan):
            return Applied(plan)
        return self.rewrite(plan, library.with_declared(plan.declares))


def sound(plan: ast.Plan) -> bool:
    """Whether names are given once, before they are used, and what is returned exists."""
    defined = {ast.DOCUMENT}
    for step in plan.steps:
        if step.name in defined or not defined.issuperset([r.name for r in ast.step_refs(step)]):
            return False
        defined.add(step.name)
    return all(ref.name in defined and ref.name != ast.DOCUMENT for ref in plan.returns)


def pure_builtin(step: ast.Step, library: Library) -> str | None:
    """The builtin that carries out a step, where its action is marked as pure."""
    action = library.get(step.action)
    if action is None or not isinstance(action.body, ast.Builtin) or "pure" not in action.traits:
        return None
    return action.body.function


def asks_model(step: ast.Step, library: Library) -> bool:
    """Whether a step is carried out by a model; an unknown action is taken to be."""
    action = library.get(step.action)
    return action is None or not action.is_builtin


def users(plan: ast.Plan, name: str) -> list[ast.Step]:
    """The steps that take a step's output, in order."""
    return [step for step in plan.steps if any(ref.name == name for ref in ast.step_refs(step))]


def without(plan: ast.Plan, gone: Collection[str], stand_ins: Mapping[str, str]) -> ast.Plan:
    """The plan without some steps; other steps may take the place of their outputs.

    The answer stays: where PEARL's rule would no longer give the outputs it
    gave, they are returned by name. Comments above a step that goes move to
    the one below; actions that only such steps called are declared no more.

    Args:
        plan: a sound plan.
        gone: the names of the steps to take out.
        stand_ins: for steps that go, the names of those that take their place
            in arguments and in the answer.
    """
    if not gone:
        return plan
    steps: list[ast.Step] = []
    comments: tuple[str, ...] = ()
    for step in plan.steps:
        comments += step.comments
        if step.name not in gone:
            steps.append(replace(ast.renamed(step, stand_ins), comments=comments))
            comments = ()
    answer = tuple(stand_ins.get(name, name) for name in outputs(plan))
    by_rule = not plan.returns and sinks(steps) == answer
    idle = {step.action for step in plan.steps} - {step.action for step in steps}
    return replace(
        plan,
        steps=tuple(steps),
        returns=() if by_rule else tuple(ast.Ref(name) for name in answer),
        declares=tuple(action for action in plan.declares if action.name not in idle),
        comments=comments + plan.comments,
    )
