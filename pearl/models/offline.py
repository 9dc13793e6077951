"""The embedded backend: no network, no weights, no language model, and it says so.

It is deterministic, and does what can be done honestly without a model. It writes plans by matching
a question's form and words to the library's actions, answers steps with sentences copied from the
document, and maps an answer to the option that shares its words. A sentence's score is BM25 for the
words of the step's arguments, its note and its action's name. Actions are proposed and condensed by
their words and a table of synonyms. The English patterns are forms of questions; none is fitted to
rows of a data set (docs/offline.md lists each family).

From top to bottom: steps carried out; options chosen; actions proposed and condensed.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from importlib.metadata import version
from importlib.resources import files
from itertools import pairwise
from threading import Lock, Thread

from pearl.lang.ast import Action, Param, Ref, Replaced
from pearl.lang.definitions import arguments, widen
from pearl.lang.printer import print_action, print_library
from pearl.lang.similarity import clearest, group
from pearl.lang.source import Source
from pearl.lang.text import text_digest
from pearl.lang.values import Pairs, Type, Value, as_text
from pearl.models.base import OFFLINE, ModelError, Reply, Request
from pearl.models.offline_planning import (
    UNQUOTABLE,
    UNTRUE,
    ParsedQuestion,
    names,
    read_question,
    write,
    write_shortest,
)
from pearl.passes.split_context import FINDINGS
from pearl.prompts.calls import (
    CondenseActions,
    CorrectPlan,
    CorrectStep,
    ExecuteStep,
    MapAnswer,
    MineActions,
    RefinePlan,
    WritePlan,
    letter,
)
from pearl.retrieval.terms import MONTH, SentenceIndex, foreign_stop, index_sentences, stems, words
from pearl.retrieval.terms import QUESTION_STOP as STOP

NOTICE = (
    "No language model: the embedded offline reader quotes the sentences that bear on each "
    "step. For a model, set OPENAI_API_KEY or OPENAI_BASE_URL, and --model NAME, or use "
    "--model local."
)

NEEDED = (
    "This needs a language model: set OPENAI_API_KEY or OPENAI_BASE_URL, and --model NAME, or "
    "use --model local."
)

NO_ACTION = (
    "The offline reader plans with actions that take CTX and one text, and give text or a list: "
    "use a library that has one, or another model."
)

QUOTES_ALONE = (
    "The offline reader quotes, and gives no {}: use a language model, or an action that gives "
    "text or a list."
)
CODE = (
    *("models/offline.py", "models/offline_planning.py"),
    *("retrieval/terms.py", "lang/text.py", "lang/similarity.py", "lang/definitions.py"),
)
"""The code that decides replies: its hash is in the identity, so that replies that other code gave
are not taken from a store."""


class Offline:
    """The reader that works without a language model.

    Args:
        chosen: whether a person asked for it by name; then it needs no notice.
    """

    name = OFFLINE

    def __init__(self, *, chosen: bool = False) -> None:
        self.notice = "" if chosen else NOTICE
        # The code may differ within one version, as while it is developed.
        code = "".join((files("pearl") / name).read_text(encoding="utf-8") for name in CODE)
        self.identity = f"offline {version('pearl')} {text_digest(code)[:12]}"

    async def answer(self, request: Request) -> Reply:
        match request.call:
            case WritePlan() as call:
                return Reply(write(call))
            case CorrectPlan(write=WritePlan() as call) | RefinePlan(write=call):
                return Reply(write_shortest(call))
            case (ExecuteStep() as call) | CorrectStep(step=call):
                document = call.document
                if document and len(document.text) > LONG:
                    return Reply(await _in_thread(call))
                return Reply(carry_out(call))
            case MapAnswer() as call:
                return Reply(choose(call))
            case MineActions() as call:
                return Reply(propose(call))
            case CondenseActions() as call:
                return Reply(condense(call))
            case _:
                raise ModelError("request", NEEDED)

    async def close(self) -> None:
        return


LONG = 300_000
"""The characters from which on a document is read in a thread, so that Ctrl-C is heard."""

_READING = Lock()
"""Held while a long document is read, so that several calls do not index it at the same time."""


async def _in_thread(call: ExecuteStep) -> str:
    """`carry_out` in a daemon thread: unlike for asyncio's threads, the process does not wait for
    it at its end."""
    reply = Future[str]()

    def read() -> None:
        with _READING:
            if reply.set_running_or_notify_cancel():
                try:
                    reply.set_result(carry_out(call))
                except Exception as error:  # noqa: BLE001 - raised where the reply is awaited
                    reply.set_exception(error)

    Thread(target=read, name="pearl-offline", daemon=True).start()
    return await asyncio.wrap_future(reply)


NOTHING = "Nothing that was read bears on this."

QUOTES = 4
"""The most sentences that an answer quotes."""

WHOLE = 5
"""The fewest words of a sentence that is informative by itself."""

_PAIR = re.compile(r"\t|: \S|;(?=\w)|(?<!\d),(?=\w)|,(?=[^\W\d])")
"""The mark between a thing and its value, in a short line such as a table's row."""

_HEADING = re.compile(r"#{1,6} ")
"""The beginning of a heading in Markdown."""

_NUMBER = re.compile(rf"(\d+(?:\.\d+)*)[.)]? (?!(?i:{MONTH.pattern}))(?=[^\W\da-z_])")
"""The number of a clause or of its heading, and not the day of a date."""

_END_MARKS = (".", ";", ":", ",", "!", "?", "…")
"""What text ends with, and a heading does not."""

NO_OPTION = "no option"
"""The reply where no option is chosen; it is not *none*, which may be the text of an option."""

EARLIER = 0.1
"""The weight of a word that only an earlier step's output has; one of the arguments weighs 1."""

REPEATED = 0.6
"""The factor on the score of a sentence that an earlier step has quoted."""

_NAMED = 0.25
"""The weight of a word that only the action's name has."""

_ORDERS = "find list check answer summarize describe identify explain state name topic event"
"""Words that say what a step is to do, and not what it is to look for."""


def carry_out(call: ExecuteStep) -> str:
    """The sentences that are relevant to the step, each on its own line after ``> ``.

    If the action returns a list, the list stands on the first line. A step that merges the findings
    of a document's parts reads them as its document. Any other step without a document repeats what
    earlier steps found: the plan's own words, such as its question, are no answer.

    Raises:
        ModelError: the action returns a number or a truth value, which takes understanding.
    """
    if call.action.returns in UNQUOTABLE:
        raise ModelError("refusal", QUOTES_ALONE.format(UNQUOTABLE[call.action.returns]))
    if (findings := _findings(call)) is not None:
        others = tuple((name, value) for name, value in call.arguments if name != FINDINGS)
        # The findings are what is searched, and are no words to search for.
        read_now = [value for name, value in call.arguments if name == FINDINGS]
        outputs = tuple(output for output in call.outputs if output[1] not in read_now)
        document = Source("findings", findings)
        call = replace(call, document=document, arguments=others, outputs=outputs, written=())
    if call.document is None:
        # Of pairs only the values, as a key may be a part's label.
        lines = [
            line
            for value in call.found
            for part in ([part for _, part in value] if isinstance(value, Pairs) else [value])
            for line in as_text(part).splitlines()
            if line.strip() not in ("", NOTHING)
        ]
        text, below = "\n".join(lines) or NOTHING, ""
    else:
        read = index_sentences(call.document.text)
        # Quotations are found whatever their white space, but tabs show a table's empty cells.
        texts = [re.sub(r"[^\S\t]+", " ", read.text[span.start : span.end]) for span in read.spans]
        lines = [texts[at] for at in _best(call, read, texts)]
        text = "\n".join(f"> {line}" for line in lines)
        below = f"\n{text}"
        text = text or NOTHING
    match call.action.returns:
        case "list":
            return f"{json.dumps(lines, ensure_ascii=False)}{below}"
        case "pairs":
            pairs = [list(pair) for pair in enumerate(lines, 1)]
            return f"{json.dumps({'pairs': pairs}, ensure_ascii=False)}{below}"
        case _:
            return text


def _findings(call: ExecuteStep) -> str | None:
    """The findings of a document's parts, a paragraph each; None for a step that merges none."""
    pieces: list[str] = []
    merges = False
    for name, value in call.arguments:
        if name == FINDINGS:
            merges = True
            pending: list[Value] = [value]
            while pending:
                item = pending.pop(0)
                if isinstance(item, Pairs):
                    pending = [part for _, part in item] + pending
                elif isinstance(item, list):
                    pending = [*item, *pending]
                elif as_text(item).strip() != NOTHING:
                    pieces += (line.removeprefix("> ") for line in as_text(item).splitlines())
    return "\n\n".join(dict.fromkeys(filter(str.strip, pieces))) if merges else None


def _is_heading(text: str, below: str) -> bool:
    """Whether a line without Markdown is a heading of the text below it: without an end mark or
    another figure, in capitals or with a number. A number that the next line goes on from is a list
    item's."""
    if text.endswith(_END_MARKS) or not below.endswith(_END_MARKS) or _PAIR.search(text):
        return False
    number, following = _NUMBER.match(text), _NUMBER.match(below)
    if re.search(r"\d", text[number.end() :] if number else text):
        return False
    inside = number and (not following or following[1].startswith(f"{number[1]}."))
    return bool(text.isupper() or inside)


def _best(call: ExecuteStep, read: SentenceIndex, texts: list[str]) -> list[int]:
    """The best sentences, best first. One that an earlier step quoted has a lower score. One that
    has only words of the action's name has none, if the step has other words."""
    # The arguments' own words weigh most, the action's least.
    query = dict.fromkeys(words(call.action.name.replace("_", " ").lower()), _NAMED)
    query |= dict.fromkeys(words(call.step.note), 0.6)
    for stem in words(_ORDERS):
        query.pop(stem, None)
    # `NOTHING` is the reader's own sentence, and has no words to look for.
    arguments = [text.replace(NOTHING, " ") for text in call.texts]
    earlier = [as_text(value).replace(NOTHING, " ") for _, value, _ in call.outputs]
    for weight, phrases in ((1.0, arguments), (EARLIER, earlier)):
        for stem in words("\n".join(phrases)):
            query[stem] = max(weight, query.get(stem, 0.0))
    for stem in words(" ".join(foreign_stop(read.text))):
        query.pop(stem, None)
    quoted = {line for text in earlier for line in text.splitlines()}
    topic = {stem for stem, weight in query.items() if weight != _NAMED}
    scores = [
        0.0 if topic and topic.isdisjoint(held) else score * REPEATED if text in quoted else score
        for score, text, held in zip(read.scores(query), texts, read.stems, strict=True)
    ]
    # A question in the document is answered by the next sentence, as in an interview.
    for at, text in enumerate(texts[:-1]):
        if text.endswith("?"):
            scores[at + 1] = max(scores[at + 1], scores[at])
            scores[at] *= REPEATED
    asked = query.keys() & (words("\n".join(arguments)) or words(call.step.note))
    # A line that stands twice may be the name of who speaks.
    times = Counter(texts)
    headings = {
        at
        for at, (text, below) in enumerate(pairwise([*texts, ""]))
        if _HEADING.match(text) or (times[text] == 1 and _is_heading(text, below))
    }
    headed: set[int] = set()
    for at, end in pairwise([*sorted(headings), len(texts)]):
        named = asked & read.stems[at]
        if named and at + 1 < end:
            # What a heading names need not be named again below it.
            told = next((n for n in range(at + 1, end) if named <= read.stems[n]), at + 1)
            headed.add(told)
            scores[at] *= REPEATED
            scores[told] += scores[at]
    # Words of earlier outputs count only in or beside a sentence that has words of this step.
    own = [at for at, has in enumerate(read.stems) if any(query.get(s, 0) > EARLIER for s in has)]
    near = {at + step for at in own for step in (-1, 0, 1)} if own else range(len(texts))
    first: dict[str, int] = {}
    for at in sorted(range(len(texts)), key=lambda at: (-scores[at], at in headings, at)):
        if scores[at] > 0 and at in near:
            first.setdefault(texts[at], at)
    best = list(first.values())
    # A short sentence is dropped, unless it has several of the words asked for, or one that no
    # other has, or is a table's row or a labelled value, or is what is told below a heading that
    # has one; a heading, unless no other has its word.
    whole = {
        at
        for at in best
        if at not in headings
        and (
            at in headed
            or len(texts[at].split()) >= WHOLE
            or _PAIR.search(texts[at])
            or len(asked & read.stems[at]) > 1
        )
    }
    held = frozenset().union(*(read.stems[at] for at in whole))
    kept = [at for at in best if at in whole or not held.issuperset(asked & read.stems[at])]
    return kept[:QUOTES]


def choose(call: MapAnswer) -> str:
    """The letter of the option that shares most words with the answer.

    A word that several options share weighs little, and a word of the question
    nothing. Where the question asks for what is not so, it is the option that
    shares least. Ties go to the first option; where all are tied, none is
    chosen. Whether an option fits at all takes understanding, so one is chosen
    only where the call asks for the best.
    """
    if not call.best:
        return NO_OPTION
    question = set(words(call.question))
    options = [set(words(option)) - question for option in call.options]
    # An option that is given twice, as in some data sets, counts once.
    distinct = {*map(frozenset, options)}
    shared = Counter(stem for option in distinct for stem in option)
    answer = Counter(words(call.answer))
    scores = [
        sum(
            math.log(1 + len(distinct) / shared[stem]) * (1 + math.log(answer[stem]))
            for stem in sorted(option)
            if stem in answer
        )
        / math.sqrt(4 + len(option))
        for option in options
    ]
    chosen = scores.index((min if UNTRUE.fits(call.question) else max)(scores))
    nearest = min(scores) < max(scores) and call.answer.strip() != NOTHING
    return letter(chosen) if nearest else NO_OPTION


# --- actions proposed and condensed ---

_OF = (
    r"(?: (?P<link>of|for|behind|between|about|regarding)\b"
    r"| (?:that|who|which|does|did|do|is|was|were|are|has|had|would)\b|[?.,]|$)"
)
_THING = re.compile(
    r"\b(?:what|which)(?: (?:is|was|are|were|would be|seems? to be|best describes))? "
    r"(?:the |an? |some |his |her |their |its |[\w-]+['’]s? )?"
    rf"(?P<words>(?:[a-z][a-z-]+ ){{0,2}}[a-z][a-z-]+?){_OF}"
)
_OWNED = re.compile(
    r"\b(?:\w+['’]s?|his|her|their|its) (?P<words>(?:[a-z][a-z-]+ )?[a-z][a-z-]+)\b"
)
_VAGUE = frozenset(
    """
    answer best choice correct doe does did done following happen happened happening happens
    kind likely main make makes mean means most option other own primary probable reader real sort
    statement story text true thing things type way one
    """.split()
)

_FORMS: tuple[tuple[str, str, str, Type], ...] = (
    (r"\bif\b.*\bwould|\bwould\b.*\bif\b", "hypothetical outcome",
     "Find what would follow from X, judging by CTX.", "text"),
    (r"\b(?:not|except)\b.*\?|\bleast\b", "what is not so",
     "Find what CTX gives as untrue of X, or leaves out about X.", "text"),
    (r"^why\b", "reason", "Find the reason for X in CTX.", "text"),
    (r"\bhow (?:many|much|often)\b", "quantity",
     "Find how much or how many X there is in CTX.", "number"),
    (r"\bhow long\b|\bhow much time\b", "duration",
     "Find how long X lasts or takes in CTX.", "text"),
    (r"^where\b", "place", "Find where X is or takes place in CTX.", "text"),
    (r"^when\b", "time", "Find when X takes place in CTX.", "text"),
    (r"\bfeel|\bfelt\b", "feeling", "Find how X feels about Y in CTX.", "text"),
    (r"\bthink|\bthought\b", "thought", "Find what X thinks of Y in CTX.", "text"),
    (r"\bmean\b|\bmeans\b|\bmeant\b", "meaning", "Find what X means in CTX.", "text"),
    (r"\bimply|\binfer|\bsuggest", "implication", "Find what CTX implies about X.", "text"),
    (r"\breact|\brespon[ds]", "reaction", "Find how X reacts to Y in CTX.", "text"),
    (r"\bchange[sd]?\b|\bbecome", "change", "Find how X changes in the course of CTX.", "text"),
    (r"^how\b", "manner", "Find how X comes about or is done in CTX.", "text"),
)  # fmt: skip
"""Forms of question: a pattern, what an action for it finds, its definition, and its type."""


def propose(call: MineActions) -> str:
    """At most one new action for the question, or ``None`` where the seeds will do."""
    question = read_question(call.question)
    action = _action_of_thing(question) or _action_of_form(question)
    taken_names = {tuple(stems(name.lower().split("_"))) for name in call.library.every_name()}
    if action is None or tuple(stems(action.name.lower().split("_"))) in taken_names:
        return "None"
    return f"- {print_action(action)}"


def _action_of_form(question: ParsedQuestion) -> Action | None:
    """The action for a question's form."""
    for pattern, thing, doc, returns in _FORMS:
        if re.search(pattern, question.sentence, re.IGNORECASE):
            params = [name for name in ("X", "Y") if re.search(rf"\b{name}\b", doc)]
            return Action(_name(thing.split()), tuple(map(Param, ("CTX", *params))), returns, doc)
    return None


def _name(words: Sequence[str]) -> str:
    """The name of an action that finds something, as ``FIND_MAIN_REASON``."""
    return "_".join(("FIND", *words)).upper()


def _action_of_thing(question: ParsedQuestion) -> Action | None:
    """The action that finds the thing a question names, such as the purpose of X."""
    text = question.sentence[:1].lower() + question.sentence[1:]
    match = _THING.search(text) or (_OWNED.search(text) if text.startswith("what ") else None)
    if match is None:
        return None
    people = {part.lower() for name in names(question.text) for part in name.split()}
    idle = STOP | _VAGUE | people
    words = [w for w in re.split(r"[ -]+", match["words"]) if w not in idle and w.isascii()]
    if not words or len(words[-1]) < 3:
        return None
    link = match.groupdict().get("link") or "of"
    two = link == "between" or question.pair is not None
    parties = ("X and Y" if link == "between" else "X towards Y") if two else "X"
    params = tuple(map(Param, ("CTX", "X", "Y")[: 3 if two else 2]))
    link = "of" if two and link != "between" else link
    doc = f"Find the {' '.join(words)} {link} {parties} in CTX."
    return Action(_name(words), params, "text", doc)


FLOOR = 0.55
"""The likeness below which actions are not merged. It is higher than for a whole library, because
a word that is rare in one prompt may not be rare elsewhere."""


def condense(call: CondenseActions) -> str:
    """The actions that stay, each with those it replaces, as a library's text."""
    actions: list[Action] = []
    for places in group(call.actions, call.target, FLOOR):
        members = [call.actions[at] for at in places]
        main = members.pop(clearest(members))
        replaced: list[Replaced] = []
        for old in members:
            args, params = arguments(old, main), tuple(param.name for param in old.params)
            # An action of the same name and call needs no line: the definition covers both.
            same = old.name == main.name and args == tuple(map(Ref, params))
            if args is not None and not same:
                replaced.append(Replaced(old.name, params, args))
        gone = {old.name for old in replaced}
        doc = widen(main, [member for member in members if member.name in gone])
        main = replace(main, doc=doc, replaces=tuple(replaced), aliases=(), provenance=())
        others = [member for member in members if member.name not in gone]
        actions += [replace(action, comments=()) for action in (main, *others)]
    return print_library(actions)
