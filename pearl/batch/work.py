"""One question of a batch: from its row to the row of its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pearl.answer import Answer, Watch, answer_prepared, as_object, heading, whole_plan
from pearl.batch.questions import Question
from pearl.context import UNLIMITED, Context
from pearl.embedding import choose_embedding
from pearl.library import Library
from pearl.llm import Demonstration, ModelError, Usage
from pearl.passes import DEFAULT_PASSES
from pearl.runtime import Caller, Journal, RunError
from pearl.runtime.handlers import NONE
from pearl.session import Session
from pearl.source import InputError, Source
from pearl.strategies import GivenPlan, rewritten
from pearl.strategies.prepared import Prepared
from pearl.strategies.registry import Known, Setting, find_strategy
from pearl.strategies.retrieving import with_retriever
from pearl.values import digest


@dataclass(frozen=True)
class Setup:
    """How the questions of a batch are answered.

    Args:
        library: the actions the strategy's steps may call.
        demonstrations: example plans for the planner.
        context: how much fits a prompt, and what to do with a longer document.
        passes: names of rewrites that plans go through.
        strategy: the name of how.
        plans: the actions that a question's own plan may call; None for ``library``.
    """

    library: Library
    demonstrations: tuple[Demonstration, ...] = ()
    context: Context = UNLIMITED
    passes: tuple[str, ...] = DEFAULT_PASSES
    strategy: str = "pearl"
    plans: Library | None = None

    def digest(self) -> str:
        """The hash of all of it that may change an answer.

        Raises:
            InputError: the strategy embeds, and the embedding of the environment cannot be used.
        """
        shown = [[one.question, one.plan] for one in self.demonstrations]
        fitting = [self.context.policy, self.context.window, self.context.reply]
        how = [] if self.strategy == "pearl" else [self.strategy]
        known: Known = {"tools": str, "embedding": lambda: choose_embedding().identity}
        how += find_strategy(self.strategy).decisive(known)
        if self.plans and self.plans.digest != self.library.digest:
            how.append(self.plans.digest)
        return digest([self.library.digest, shown, fitting, self.passes, *how])


def row_key(question: Question, document: Source) -> str:
    """The hash of what is asked: where it is the same, a kept answer still holds."""
    asked = [question.question, question.options, question.gold, question.plan, document.digest]
    return digest(asked)


async def answer_row(
    question: Question,
    document: Source,
    setup: Setup,
    session: Session,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Answer one question.

    Args:
        question: what is asked.
        document: its document.
        setup: how to answer.
        session: the model in its layers, and the question's journal.
        watch: told of each call.

    Returns:
        The row of the output, as JSON data. Where there is no answer it says
        why, and counts as wrong.
    """
    library = _plans(setup) if question.plan else setup.library
    head = heading(question.question, document, library, session.engine.model)
    session.journal.decide("run", head)
    try:
        found = await answer_prepared(
            _prepare(question, document, setup, session),
            question.question,
            document,
            question.options,
            session,
            watch,
        )
    except (RunError, ModelError, InputError) as error:
        return _failed(question, session.journal, error)
    return _answered(question, found, document)


def _prepare(
    question: Question, document: Source, setup: Setup, session: Session
) -> Callable[[Caller], Prepared]:
    shown, passes = setup.demonstrations, setup.passes
    if not question.plan:
        make = find_strategy(setup.strategy).make
        return lambda caller: make(
            Setting(
                caller,
                document,
                setup.library,
                shown,
                passes,
                context=session.context,
                keeper=session.engine.keeper,
            )
        )
    library = _plans(setup)
    parsed = whole_plan(question.plan, library)

    def given(caller: Caller) -> Prepared:
        plan = rewritten(parsed.plan, library, passes, caller.journal)
        return Prepared(GivenPlan(plan), library, with_retriever(NONE, document))

    return given


def _plans(setup: Setup) -> Library:
    return setup.plans or setup.library


def _answered(question: Question, found: Answer, document: Source) -> dict[str, Any]:
    told = as_object(found, document)
    # The same answers give the same row, whichever run they come from and whoever paid for them.
    kept = ("answer", "words", "option", "evidence", "plan", "fallback", "calls", "usage")
    return {
        **_asked(question),
        "status": "answered",
        **_correct(question, found.option.letter if found.option else None),
        **{name: told[name] for name in kept},
    }


def _failed(
    question: Question, journal: Journal, error: RunError | ModelError | InputError
) -> dict[str, Any]:
    steps: Sequence[Any] = error.failures if isinstance(error, RunError) else ()
    plans = [entry.value for entry in journal.entries if entry.path == "plan"]
    done = [one for one in journal.entries if one.kind == "call" and one.status == "done"]
    return {
        **_asked(question),
        "status": "failed",
        "error": {
            "reason": _reason(error),
            "message": str(error),
            "steps": [asdict(one) for one in steps],
        },
        **_correct(question, None),
        "plan": plans[-1] if plans else question.plan or None,
        "calls": len(done),
        "usage": asdict(sum((one.usage for one in done), Usage())),
    }


def _asked(question: Question) -> dict[str, Any]:
    return {"id": question.id, "question": question.question, "document": question.document}


def _correct(question: Question, chosen: str | None) -> dict[str, Any]:
    """Whether the answer is right; without an answer it is not (accuracies count it as wrong)."""
    if not question.gold or not question.options:
        return {"gold": question.gold or None, "correct": None}
    return {"gold": question.gold, "correct": chosen == question.gold}


def _reason(error: RunError | ModelError | InputError) -> str:
    """The class of what went wrong: the model's reason where there is one, else whose fault."""
    if isinstance(error, ModelError):
        return error.reason
    if isinstance(error, InputError):
        return "input"
    if error.diagnostics:
        return "plan"
    return error.failures[0].reason if error.failures else "reply"
