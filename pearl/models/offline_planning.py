"""Writes plans from a question's form: cue words choose the action, its clause is the argument.

A question is parsed (`read_question`), cue words say what kind of action it
needs (`CUES`), and that action is looked up by the words of its name and
definition, so that any library works and no action is named here. The patterns
are forms of English questions, and none is fitted to rows of a data set:
docs/offline.md lists them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from pearl.lang.ast import DOCUMENT, Action, Arg, Literal, Param, Plan, Ref, Step
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.text import one_line
from pearl.lang.values import TYPES
from pearl.prompts.calls import WritePlan
from pearl.retrieval.terms import QUESTION_STOP as STOP
from pearl.retrieval.terms import sentences, stems, words

UNQUOTABLE = {"number": "number", "bool": "yes or no"}
"""The types whose values cannot be quoted sentences, as messages call them."""

_WHO = r"(?:the |an? |its |their |his |her )?(?:[\w'’-]+ ){0,4}?[\w'’-]+"  # a party, in a few words
_PREAMBLE = re.compile(
    r"^(?:taken together|overall|ultimately|in general|in the end"
    r"|(?:according to|based on|given|of the) [^,]{1,60}"
    r"|(?:in|throughout|at the end of) (?:the|this) (?:story|article|passage|text|essay))[,:]? ",
    re.IGNORECASE,
)
_AUXILIARY = (
    r"(?:do|does|did|has|had|have|would|might|may|can|could|should|will|is|are|was|were)"
    r"(?:n['’]t)?\b"
)
_LIKELY = r"(?:,? (?:is it |it is )?(?:most )?(?:likely|probably|best),?)?"
_ASKING = re.compile(
    r"^(?:(?:with|in|to|from|for|by|of|at|on|about) )?"
    r"(?P<word>why|how|what|who|whom|whose|when|where|which)\b"
    r"(?P<much>(?<=how) (?:many|much|often|long|far)\b)?(?: of (?:these|the following|the))?"
    r"(?: (?:best )?(?:statement|option|answer|choice|sentence|phrase|word|one|reason|question)s?\b"
    rf")?{_LIKELY} ?",
    re.IGNORECASE,
)
_NOUN = re.compile(
    rf"^(?P<noun>(?!about\b)(?:(?!{_AUXILIARY})[\w'’-]+ ){{1,3}}?)(?={_AUXILIARY})", re.I
)
_VERB = re.compile(
    rf"^(?P<verb>{_AUXILIARY})?{_LIKELY} ?(?:you )?"
    r"(?:(?:describe|state|explain|summari[sz]e|characteri[sz]e|capture|express)s?\b ?)?",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(rf"^(?P<verb>{_AUXILIARY}) (?:it seem (?:like|that) )?", re.IGNORECASE)
_VERBS = frozenset("do does did has had have would might may can could should will".split())
_OF = re.compile(
    r"^(?:(?:the|an?|one|some|his|her|their|its) )?(?:[\w-]+ ){0,2}?(?P<head>[\w-]+?)s? "
    r"(?:of|about|for|during|between|behind|regarding|with) (?P<rest>.+)$",
    re.IGNORECASE,
)
_QUESTIONING = re.compile(r"\b(?:what|who|that|which|how|why|it)\b", re.IGNORECASE)
_FALSE = re.compile(r"^about (.+?),? (?:is|are|was|were) (?:not|false|untrue|true|correct)\b", re.I)
_IF = re.compile(r"\bif (.+?)(?:,| what\b| how\b| would\b|\?|$)", re.IGNORECASE)
_HOW_MUCH = re.compile(r"\bhow (?:many|much|often)\b(?! time)", re.IGNORECASE)
_TITLE = r"(?:Mr|Mrs|Ms|Dr|St|Prof|Capt|Col|Gen|Lt)\.? "
_NAME = re.compile(
    rf"(?:{_TITLE})?(?:[A-Z]\. ?)*\b[A-Z][\w-]+(?:['’](?!s\b)[\w-]+)?"
    r"(?: (?:(?:of|the|de|van|von) )*(?:[A-Z]\. ?)*[A-Z][\w-]+)*"
)
_AT_PLACE = r"\b(?:in|at|near|aboard|across|around|inside|leave|leaves|reach|reaches)"
_PAIRS = (
    re.compile(r"\bbetween (?P<one>.+?) and (?P<two>.+)$", re.IGNORECASE),
    re.compile(
        rf"^(?P<one>{_WHO})['’]s? (?:[\w-]+ )?(?:attitude|opinion|view|feeling|reaction|position"
        r"|regard|stance|perception|impression|treatment|thought|relationship)s? "
        r"(?:of|to|towards?|about|on|with|for|in|regarding) (?P<two>.+)$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"^(?P<one>{_WHO}) (?:feel|felt|think|thought|view|regard|see|react|respond|treat"
        r"|consider|perceive)s? (?:about |of |to |towards? |on )?(?P<two>.+)$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?P<one>.+?) (?:compared?|differs?|differed|different|contrasts?|unlike) "
        r"(?:to |with |from )(?P<two>.+)$",
        re.IGNORECASE,
    ),
)


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A parsed question.

    Args:
        text: the whole question, on one line.
        sentence: the sentence that asks, without its preamble.
        scene: the sentences before it, which set the scene.
        clause: what it is about: the asking sentence without question words.
        happens: whether that is an event, and not a thing.
        pair: two parties that it compares or relates, or None.
    """

    text: str
    sentence: str
    scene: str
    clause: str
    happens: bool
    pair: tuple[str, str] | None


def read_question(question: str) -> ParsedQuestion:
    """Parse a question. It never fails: a question of no known form is about its own words."""
    # In a plan, braces would be a reference to a step.
    text = one_line(question.replace("{", "(").replace("}", ")"))
    parts = [text[span.start : span.end] for span in sentences(text)] or [text]
    at = next((at for at in reversed(range(len(parts))) if parts[at].endswith("?")), -1)
    sentence = parts[at].strip(' "“”')
    scene = " ".join(parts[:at]) if at > 0 else ""
    while led := _PREAMBLE.match(sentence):
        sentence = sentence[led.end() :]
    noun, word, rest, verb = "", "", sentence, ""
    if asking := _ASKING.match(sentence):
        word, rest = asking["word"].lower(), sentence[asking.end() :]
        if (asking["much"] or word in ("what", "which", "whose")) and (led := _NOUN.match(rest)):
            noun, rest = led["noun"], rest[led.end() :]
        if led := _VERB.match(rest):
            verb, rest = (led["verb"] or "").lower(), rest[led.end() :]
    elif asking := _YES_OR_NO.match(sentence):
        rest = sentence[asking.end() :]
    rest = _trimmed(rest)
    clause = _trimmed(f"{noun}{rest}") or _trimmed(text) or text
    pair = None
    for pattern in _PAIRS:
        parties = pattern.search(rest)
        if parties and not _QUESTIONING.search(parties["one"]):
            pair = _trimmed(parties["one"]), _trimmed(parties["two"])
            break
    return ParsedQuestion(text, sentence, scene, clause, verb in _VERBS or word == "why", pair)


def names(text: str) -> list[str]:
    """The names in a text, each once, without the words a sentence only starts with."""
    distinct: dict[str, None] = {}
    for match in _NAME.finditer(text):
        name = match[0]
        while name and name.split()[0].lower() in STOP:
            _, _, name = name.partition(" ")
        if len(name) > 1 and name != "NOT":
            distinct[name] = None
    return list(distinct)


def _trimmed(clause: str) -> str:
    clause = clause.strip(' ,;:?.!"“”')
    match = _FALSE.match(clause)
    return match[1] if match else clause


@dataclass(frozen=True, slots=True)
class Cue:
    """A form of question.

    Args:
        asks: a pattern that finds questions of this form, in upper or lower case.
        words: words that are likely in the name and definition of an action for it.
        whole: whether it may be asked of the document as a whole.
    """

    asks: str
    words: str
    whole: bool = False

    def fits(self, question: str) -> bool:
        """Whether a question has this form."""
        return bool(re.search(self.asks, question, re.IGNORECASE))


TOPIC = "summarize summary everything about topic condense"
EVENT = "event happening happens what took part"
PERSON = "character person who"

UNTRUE = Cue(
    r"\bexcept\b|\b(?:which|what)\b.*\b(?:is|are|was|were|does|did|do|would) (?-i:NOT)\b"
    r"|\b(?:which|what) of .*\b(?:not|false|untrue)\b|\bleast likely\b",
    TOPIC,
)
"""Asks which of the options is not true."""

SUPPOSED = Cue(
    r"\bif\b.*\bwould\b|\bwould\b.*\bif\b|\bwould\b.*\bhave happened\b",
    "hypothetical predict followed outcome had been",
)
"""Asks about what did not happen."""

CUES = (
    # First what turns a question's sense, then what it starts with, then its other words.
    UNTRUE,
    SUPPOSED,
    Cue(r"\biron(?:y|ic|ically)\b", "irony ironic opposite expected"),
    Cue(r"^why\b|\breasons?\b|\bmotiv(?:e|ation)", "reason why motive behind behavior"),
    Cue(r"^in (?:what|which) order\b|\bchronolog|\bsequence\b", "timeline order sequence events"),
    Cue(r"\bhow long\b|\bhow much time\b", "duration time passes long"),
    Cue(
        r"\b(?:main|central) (?:idea|argument|point|claim|message)\b|\bthesis\b",
        "main idea central claim whole summarize",
        whole=True,
    ),
    Cue(r"\bthemes?\b", "themes theme ideas whole", whole=True),
    Cue(r"\bgenre\b|\bkind of (?:text|writing)\b", "genre kind writing", whole=True),
    Cue(r"\bnarrator\b|\bpoint of view\b", "narrator point view tells", whole=True),
    Cue(
        r"\bmoral\b|\blessons?\b|\bteach\b.* (?:reader|us)\b|\blearn from\b", "lesson moral insight"
    ),
    Cue(r"\b(?:author|writer)\b.*\b(?:purpose|use|include|contribute|mention)", "author purpose"),
    Cue(r"\bauthor\b|\bauthors['’]|\bwriter\b|\bessay\b", "author stance position writer"),
    Cue(r"\brelation(?:ship)?s?\b|\brelated\b|\bknow each other\b", "relation relationship stand"),
    Cue(r"\bcompar|\bcontrast|\bdiffer|\bunlike\b", "compare contrast differences comparison"),
    Cue(r"\bin common\b|\bsimilar|\balike\b", "common similarities share features"),
    Cue(r"\bfeel|\bfelt\b|\bemotion|\bafraid\b|\bangry\b", "emotion feeling feelings"),
    Cue(r"\bthink|\bopinion|\bview\b|\battitude|\bregard\b", "opinion attitude judgement view"),
    Cue(r"\breact|\brespon[ds]", "reaction does says immediately"),
    Cue(r"\btone\b|\bmood\b", "tone mood voice"),
    Cue(r"\bsymbol|\bstand for\b|\brepresent", "symbolism symbol stands"),
    Cue(r"\bmean(?:s|ing|t)?\b|\bphrase\b|\brefer", "meaning sense word phrase"),
    Cue(r"\bsignifican|\bimportan", "significance importance matters"),
    Cue(r"\bresults?\b|\beffects?\b|\bconsequence|\bled to\b|\boutcome", "effect result follow"),
    Cue(r"\bcaused?\b|\bexplanation\b|\bexplain", "cause explain explanation"),
    Cue(r"\blie[ds]?\b|\bdeceiv|\bpretend|\bhid(?:e|es|ing)?\b", "deception lie trick deceive"),
    Cue(r"\bchang(?:e|ed|es|ing)\b|\bbecome|\btransform|\bevolv", "change changes transformation"),
    Cue(r"\btraits?\b|\bpersonalit|\bkind of (?:person|man|woman)\b", "traits character qualities"),
    Cue(r"^(?:by |with |to )?who(?:m|se)?\b", PERSON),
    Cue(r"^when (?:do|does|did|is|was|were|will)\b|\bwhat (?:time|year|day)\b", "time when date"),
    Cue(r"^where\b", "location place where"),
    Cue(r"\bpurpose\b|\bintend|\bgoal\b|\baims?\b", "goal purpose intent aim"),
    Cue(r"\bbenefit|\badvantage", "benefits benefit gains"),
    Cue(
        r"\bchallenge|\bdifficult|\bobstacle|\bproblem|\bconcern", "obstacles difficulty challenge"
    ),
    Cue(r"\bevidence\b|\bsupport|\bexamples?\b", "evidence claim facts example"),
    Cue(r"\bimpl(?:y|ied|ies)|\bsuggest|\binfer|\bconclude|\bshows?\b", "infer conclusion clues"),
    Cue(r"\bwill\b.*\bhappen\b|\bhappens? after\b|\bfuture\b", "future fate becomes ends ending"),
    Cue(r"\bdescrib", "description describe details"),
    Cue(r"^how\b", "method process carried way steps"),
    Cue(r"\bhappen|\bevent", EVENT),
)

TAKEN = ("ctx", "answer", "found", "true", "false", "each", "where", "return", "values")
"""Names that a step about a party may not have."""

_PARTY = 6
"""The most words of a party that gets a step of its own; a longer one is a clause."""


def write(call: WritePlan) -> str:
    """A plan of one to three steps for the question."""
    question = read_question(call.question)
    ranked = _Ranking(call.library)
    main = ranked.best(question)
    if main and question.pair and len(main.params) == 3:
        return _text(question, _about_two(ranked, main, question.pair, question))
    happens = question.happens or bool(question.scene)
    first = ranked.best_for(EVENT if happens else TOPIC)
    main = main or (ranked.best_for(TOPIC) if question.scene else first) or ranked.any()
    if main is None:
        return ""
    if len(main.params) == 1:
        return _text(question, [_step("answer", main, [], question.text)])
    about, person = _about(question), ranked.best_for(PERSON)
    if first is None or main in (first, person):
        return _text(question, [_step("answer", main, [Literal(about)], question.text)])
    scene = question.scene.strip(" .") or about
    name = "event" if happens else "topic"
    steps = [_step(name, first, [Literal(scene)], f"Find what is said of this: {scene}")]
    return _text(question, [*steps, _step("answer", main, [Ref(name)], question.text)])


def write_shortest(call: WritePlan) -> str:
    """A plan of one simple step, for when a longer one was rejected."""
    question = read_question(call.question)
    ranked = _Ranking(call.library)
    action = ranked.best_for(TOPIC) or ranked.any()
    if action is None:
        return ""
    args = [Literal(question.clause)][: len(action.params) - 1]
    return _text(question, [_step("answer", action, args, question.text)])


def _about(question: ParsedQuestion) -> str:
    """The part of a question that is the argument of an action with one parameter."""
    if question.pair and _author(question.pair[0]):
        return question.pair[1]
    cue = next((cue for cue in CUES if cue.fits(question.sentence)), None)
    if cue is SUPPOSED:
        supposed = _IF.search(question.sentence)
        return _trimmed(supposed[1]) if supposed else question.clause
    # For "the meaning of the wreck", and an action that finds meanings, it is "the wreck".
    head = _OF.match(question.clause) if cue else None
    return head["rest"] if cue and head and cue.fits(head["head"]) else question.clause


def _about_two(
    ranked: _Ranking, main: Action, pair: tuple[str, str], question: ParsedQuestion
) -> list[Step]:
    """Steps that find out who or what each of two parties is, and then answer the question."""
    steps: list[Step] = []
    args: list[Arg] = []
    for party, variable in zip(pair, ("one", "other"), strict=True):
        # A name is no person's where the question uses it as a place: "in Ulm".
        at = rf"{_AT_PLACE} (?:the )?{re.escape(party)}\b"
        person = party in names(question.text) and not re.search(at, question.text)
        action = ranked.best_for(PERSON if person else TOPIC)
        if action is None or len(party.split()) > _PARTY:
            args.append(Literal(party))
            continue
        name = "_".join(re.findall(r"[a-z]\w*", re.sub(r"^(?:the|an?) ", "", party.lower()))[:3])
        variable = name if name and name.isascii() and name not in TAKEN else variable
        note = f"Find out who {party} is" if person else f"Find out about {party}"
        steps.append(_step(variable, action, [Literal(party)], note))
        args.append(Ref(variable))
    if len({step.name for step in steps}) < len(steps):
        return [_step("answer", main, [Literal(party) for party in pair], question.text)]
    return [*steps, _step("answer", main, args, question.text)]


def _author(party: str) -> bool:
    """Whether a party is the author of the document, who does not occur in it."""
    return bool(re.fullmatch(r"(?:the |its )?(?:author|writer|essayist)", party, re.IGNORECASE))


def _step(name: str, action: Action, args: Sequence[Arg], note: str) -> Step:
    return Step(name, action.name, (Ref(DOCUMENT), *args), note)


def _text(question: ParsedQuestion, steps: Sequence[Step]) -> str:
    plan = Plan(tuple(steps), question.text)
    written = print_plan(plan)
    if parse(written).plan.steps != plan.steps:
        # A question that contains a step would be parsed as that step.
        plain = tuple(replace(step, note="Find what the question asks") for step in steps)
        return print_plan(replace(plan, steps=plain))
    return written


def _takes_text(param: Param) -> bool:
    """Whether a parameter takes a text; one that is named after another type, as LIST, does not."""
    named = param.name.lower()
    return {param.type, named if named in TYPES else "any"} <= {"text", "any"}


class _Ranking:
    """A library's actions, weighed by the words that tell them apart.

    Actions that the reader cannot carry out, or that do not take texts, are left out.
    """

    def __init__(self, library: Library) -> None:
        self.actions = [
            action
            for action in library.actions.values()
            if not action.is_builtin
            and not action.variadic
            and action.params[:1]
            and action.params[0].name == DOCUMENT
            and action.returns not in UNQUOTABLE
            and all(map(_takes_text, action.params[1:]))
        ]
        named = [stems(action.name.lower().split("_")) for action in self.actions]
        common = Counter(stem for name in named for stem in name)
        # A word that over a quarter of the names share ("find") distinguishes none.
        often = max(2, len(named) // 4)
        self.names = [[stem for stem in name if common[stem] <= often] for name in named]
        self.docs = [set(words(action.doc)) for action in self.actions]
        self.counts = Counter(stem for doc in self.docs for stem in doc)

    def best(self, question: ParsedQuestion) -> Action | None:
        """The action whose name suits the question's form, or None.

        An action with two parameters besides the document needs a question about
        two parties, one with none a question about the whole document.
        """
        if _HOW_MUCH.search(question.sentence):
            # A number cannot be chosen by words alone.
            return None
        for cue in CUES:
            if not cue.fits(question.sentence):
                continue
            arities = {1}
            if cue.whole:
                arities.add(0)
            if question.pair and not _author(question.pair[0]):
                arities.add(2)
            action = self._top(cue.words, arities)
            if action or cue is UNTRUE:
                return action
        return None

    def best_for(self, about: str) -> Action | None:
        """The action with one parameter that has these words in its name, or its definition."""
        return self._top(about, {1}) or self._top(about, {1}, named=False)

    def any(self) -> Action | None:
        """The first action that can be asked about anything."""
        return next((action for action in self.actions if len(action.params) < 3), None)

    def _top(self, about: str, arities: Collection[int], *, named: bool = True) -> Action | None:
        """The action whose name and definition have most of the words; the first one of a tie.

        ``arities`` are the numbers of parameters that it may have, without the document. With
        ``named``, its name must have one of the words.
        """
        query = set(stems(about.split()))
        best, top = None, 0.0
        for action, name, doc in zip(self.actions, self.names, self.docs, strict=True):
            hits = sum(stem in query for stem in name)
            if len(action.params) - 1 not in arities:
                continue
            if named and not hits:
                continue
            rarities = (math.log(1 + len(self.docs) / self.counts[s]) for s in sorted(query & doc))
            score = hits + 6 * hits / max(1, len(name)) + sum(rarities) / math.sqrt(8 + len(doc))
            if score > top:
                best, top = action, score
        return best
