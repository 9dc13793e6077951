"""What Pearl asks of a model: one type for each kind of call, before it is rendered as a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from pearl.lang.ast import DOCUMENT, Action, Step
from pearl.lang.errors import InputError
from pearl.lang.library import Library
from pearl.lang.source import Source
from pearl.lang.text import one_line
from pearl.lang.values import Value, as_text

if TYPE_CHECKING:
    from pearl.lang.context_free import Grammar

DOCUMENTS = 40
"""The most documents whose names a planner is shown."""


class Message(TypedDict):
    """One message of a chat."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A question and a plan for it, as an example."""

    question: str
    plan: str


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Write a plan for a question (PEARL, section 2.2). The document is not shown.

    Args:
        question: what the plan is to answer.
        library: the actions it may call.
        demonstrations: example plans.
        options: whether one of several options is chosen from the answer; they are not shown.
        listed: names of the actions that are shown; empty for all. The others may be called too.
        held: whether the reply is constrained by a grammar, in which steps are referred to by
            number and only the library's actions may be called.
        documents: names of the documents where there are several; the first `DOCUMENTS` are shown.
    """

    question: str
    library: Library
    demonstrations: tuple[Demonstration, ...] = ()
    options: bool = False
    listed: frozenset[str] = frozenset()
    held: bool = False
    documents: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """What a plan writes for each of the documents that are shown: ``CTX.lease.pdf``."""
        return tuple(f"{DOCUMENT}.{name}" for name in self.documents[:DOCUMENTS])


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A decomposition that was carried out, as a demonstration.

    Args:
        question: what was asked.
        steps: each step as written, with its output; an empty text where that is not known.
        returns: the names of the outputs that were the answer; empty for the last step's.
    """

    question: str
    steps: tuple[tuple[str, str], ...]
    returns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NextStep:
    """Write the next step of a decomposition, or say which output is the answer.

    DecomP (Khot et al., 2023), section 3: the decomposer sees the question,
    the steps so far and their outputs.

    Args:
        question: what is asked.
        library: the actions that a step may call.
        demonstrations: decompositions of other questions.
        steps: the steps so far, each with its output.
        listed: names of the actions that are shown; empty for all. The others may be called too.
    """

    question: str
    library: Library
    demonstrations: tuple[Decomposition, ...] = ()
    steps: tuple[tuple[str, str], ...] = ()
    listed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CorrectPlan:
    """Mend a plan, or a step, that the checker rejected (PEARL, section 2.2, self-correction).

    Args:
        write: the call that was answered.
        reply: the rejected reply, unchanged.
        complaint: the findings, rendered for a model.
    """

    write: WritePlan | NextStep
    reply: str
    complaint: str


@dataclass(frozen=True, slots=True)
class ContinuePlan:
    """Go on with a plan whose reply was cut at its limit of tokens.

    Args:
        write: the call that was answered.
        begun: the whole lines of the plan so far.
    """

    write: WritePlan
    begun: str


STEP_TASK = "Carry out one step of a plan"
"""The task that the prompt of each step names."""

REFUSED = "That reply cannot be used"
"""How the prompt begins that sends a reply to a step back."""


@dataclass(frozen=True, slots=True)
class ExecuteStep:
    """Carry out one step on the document (PEARL, section 2.3).

    Args:
        document: the document, or None for a step that does not take it.
        action: the action the step calls.
        step: the step as written.
        arguments: parameter names with their values, in order, without the
            document.
        omitted: the share of the document that is left out of ``document``:
            0 where it is whole, 0.75 where it is a quarter of it.
        written: each argument's text, in which a long output of an earlier step is a name in
            brackets; empty for the values as they are.
        outputs: those long outputs: name, value, and the call that gave it.
        found: for a step that does not take the document, what earlier steps found of its
            arguments, without the plan's own words. The prompt does not mark the difference.
    """

    document: Source | None
    action: Action
    step: Step
    arguments: tuple[tuple[str, Value], ...]
    omitted: float = 0.0
    written: tuple[str, ...] = ()
    outputs: tuple[tuple[str, Value, str], ...] = ()
    found: tuple[Value, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The arguments' texts, without the names of long outputs."""
        texts = list(self.written) or [as_text(value) for _, value in self.arguments]
        for name, _, _ in self.outputs:
            texts = [text.replace(f"[{name}]", " ") for text in texts]
        return texts


@dataclass(frozen=True, slots=True)
class CorrectStep:
    """Mend a reply to a step that holds no value of the type that the step's action returns.

    Args:
        step: the call that was answered.
        reply: the rejected reply, unchanged.
        complaint: what is wrong with it.
    """

    step: ExecuteStep
    reply: str
    complaint: str


@dataclass(frozen=True, slots=True)
class MapAnswer:
    """Answer a question by choosing an option, from an open answer (PEARL, section 3).

    Args:
        question: what was asked.
        answer: the open answer.
        options: 2 to 26 answers to choose from.
        parts: the outputs that make up the answer, each with a description; empty where it is
            one output.
        best: whether the best option is wanted even where none fits.
    """

    question: str
    answer: str
    options: tuple[str, ...]
    parts: tuple[tuple[str, str], ...] = ()
    best: bool = False


@dataclass(frozen=True, slots=True)
class MineActions:
    """Propose the actions that a question needs and a library lacks (PEARL, section 2.1).

    Args:
        question: an example question; its document is not shown.
        library: the seed actions.
        several: whether it is asked of several documents at once.
    """

    question: str
    library: Library
    several: bool = False


@dataclass(frozen=True, slots=True)
class CondenseActions:
    """Make fewer actions of many that are alike (PEARL, section 2.1).

    Args:
        actions: the actions to be condensed.
        target: how many are wanted.
        refused: what was wrong in an earlier reply, with the reason, a sentence each.
    """

    actions: tuple[Action, ...]
    target: int
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RefinePlan:
    """Improve a plan whose answer was judged wrong (PEARL, section 2.2, self-refinement).

    Neither the right answer nor the options are shown: a plan that holds them
    would teach nothing.

    Args:
        write: the call that the plan answered.
        plan: its text.
        outputs: the output of each step that ran, by its name, in order.
        judgement: what is wrong with the answer, in one sentence.
    """

    write: WritePlan
    plan: str
    outputs: tuple[tuple[str, str], ...]
    judgement: str


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """Say which kinds of reasoning a question asks for, at most two.

    Args:
        question: what is asked; its document is not shown.
        labels: names, each with what it means.
    """

    question: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a reply.

    Args:
        name: its name in the JSON object.
        about: what it holds, for the model.
        schema: the JSON schema of its values, as JSON text.
        within: a narrower JSON schema, of the values that are possible at this point of a run.
            It constrains the reply and is not shown. Empty where there is none.
    """

    name: str
    about: str
    schema: str
    within: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """A structured output: a JSON object that has all of some fields.

    Args:
        name: the name of its file in ``prompts/schemas/``.
        task: what is to be done, for the model.
        fields: the fields, in the order they are asked for.
        examples: inputs by name, each set with the right object as JSON text.
        plans: whether the reply decides on steps, so that the planner gives it.
        told: what the task says of an optional input, by the input's name; under
            ``no_document``, what it says where there is no document.
        found: the name of the input that holds what earlier calls found. Where it is too long for
            the window, relevant passages of it are given in its place.
    """

    name: str
    task: str
    fields: tuple[Field, ...]
    examples: tuple[tuple[tuple[tuple[str, str], ...], str], ...] = ()
    plans: bool = False
    told: tuple[tuple[str, str], ...] = ()
    found: str = ""


@dataclass(frozen=True, slots=True)
class FillSchema:
    """Reply with a JSON object that fits a schema.

    Args:
        schema: what is asked.
        given: the inputs by name, in order.
        document: the document to read, or None.
        grammar: a grammar of the replies, where it is narrower than the schema can be; else None.
        turns: the earlier calls of the same conversation, each with its reply; a schema that was
            explained there is not explained again.
        model: the name of the model that fills it; empty for the one that the schema is for.
    """

    schema: Schema
    given: tuple[tuple[str, Value], ...]
    document: Source | None = None
    grammar: Grammar | None = None
    turns: tuple[tuple[FillSchema, str], ...] = ()
    model: str = ""


@dataclass(frozen=True, slots=True)
class CorrectFilled:
    """Mend a reply that does not fit its schema.

    Args:
        fill: the call that was answered.
        reply: the rejected reply, unchanged.
        complaint: what is wrong with it, one fault a line.
    """

    fill: FillSchema
    reply: str
    complaint: str


@dataclass(frozen=True, slots=True)
class ProveForm:
    """Reply with a word that the prompt does not name, which proves that a constraint is obeyed.

    Args:
        form: how the constraint is written, by its name in `pearl.models.constraints`.
        word: the random word that the constraint allows.
    """

    form: str
    word: str


@dataclass(frozen=True, slots=True)
class OwnPrompt:
    """A prompt of a strategy of the user's own, which is sent as it is written.

    Args:
        text: the user's message.
        system: the system's message; empty for none.

    Raises:
        InputError: one of them is no text.
    """

    text: str
    system: str = ""

    def __post_init__(self) -> None:
        given: tuple[object, ...] = (self.text, self.system)
        if not all(isinstance(each, str) for each in given):
            raise InputError("An own prompt is made of texts: pearl.OwnPrompt(text, system).")


Call: TypeAlias = (
    WritePlan
    | NextStep
    | CorrectPlan
    | ContinuePlan
    | ExecuteStep
    | CorrectStep
    | MapAnswer
    | MineActions
    | CondenseActions
    | RefinePlan
    | LabelQuestion
    | FillSchema
    | CorrectFilled
    | ProveForm
    | OwnPrompt
)


def letter(index: int) -> str:
    """The letter of an option: A for 0."""
    return chr(ord("A") + index)


def letter_of(options: Sequence[str], index: int) -> str:
    """The letter of one of several options; of two with the same text, the first one's."""
    return letter(first_alike(options, index))


def first_alike(options: Sequence[str], index: int) -> int:
    """The index of the first option with the same text, whatever its white space, which readers of
    a prompt cannot see."""
    plain = [one_line(option) for option in options]
    return plain.index(plain[index])
