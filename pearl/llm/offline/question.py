"""What can be read off a question's form: what it is about, who it names, what it asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pearl.llm.offline.text import STOP
from pearl.retrieval.sentences import sentences

_WHO = r"(?:the |an? |its |their |his |her )?(?:[\w'’-]+ ){0,4}?[\w'’-]+"  # a party, in a few words
_PREAMBLE = re.compile(
    r"^(?:taken together|taking .{1,40}? as a whole|overall|ultimately|in general|in the end"
    r"|according to [^,]{1,40}|based on [^,]{1,60}|given [^,]{1,60}|of the (?:following|four)[^,]*"
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
    r"(?P<word>why|how|what|who|whom|whose|when|where|which)\b(?: of (?:these|the following|the))?"
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
_TITLE = r"(?:Mr|Mrs|Ms|Dr|St|Prof|Capt|Col|Gen|Lt)\.? "
_NAME = re.compile(
    rf"(?:{_TITLE})?(?:[A-Z]\. ?)*\b[A-Z][\w-]+(?:['’](?!s\b)[\w-]+)?"
    r"(?: (?:(?:of|the|de|van|von) )*(?:[A-Z]\. ?)*[A-Z][\w-]+)*"
)
_PAIRS = (
    re.compile(r"\bbetween (?P<one>.+?) and (?P<two>.+)$", re.IGNORECASE),
    re.compile(
        rf"^(?P<one>{_WHO})['’]s? (?:[\w-]+ )?(?:attitude|opinion|view|feeling|reaction|position"
        r"|regard|stance|perception|impression|treatment|thought|relationship)s? "
        r"(?:of|to|towards?|about|on|with|for|in|regarding) (?P<two>.+)$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\brelationship (?:that )?(?P<one>{_WHO}) (?:has|had|have|shares?d?) with (?P<two>.+)$",
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
class Question:
    """A question, taken apart.

    Args:
        text: the whole of it, on one line.
        asked: the sentence that asks, without what leads up to it.
        scene: the sentences before it, which set the scene.
        clause: what it is about: the asking sentence without question words.
        happens: whether that is something somebody does, and not a thing.
        pair: two parties it sets side by side, or None.
    """

    text: str
    asked: str
    scene: str
    clause: str
    happens: bool
    pair: tuple[str, str] | None


def read_question(question: str) -> Question:
    """Take a question apart. It never fails: at the least, it is about its own words."""
    # In a plan, braces would stand for the output of a step.
    text = " ".join(question.replace("{", "(").replace("}", ")").split())
    parts = [text[span.start : span.end] for span in sentences(text)] or [text]
    at = next((at for at in reversed(range(len(parts))) if parts[at].endswith("?")), -1)
    asked = parts[at].strip(' "“”')
    scene = " ".join(parts[:at]) if at > 0 else ""
    led = _PREAMBLE.match(asked)
    while led:
        asked = asked[led.end() :]
        led = _PREAMBLE.match(asked)
    return _taken_apart(text, asked, scene)


def _taken_apart(text: str, asked: str, scene: str) -> Question:
    noun, word, rest = "", "", asked
    asking = _ASKING.match(asked) or _YES_OR_NO.match(asked)
    if asking and asking.re is _ASKING:
        word, rest = asking["word"].lower(), asked[asking.end() :]
        found = _NOUN.match(rest) if word in ("what", "which", "whose") else None
        noun = found["noun"] if found else ""
        rest = rest[len(noun) :]
    elif asking:
        rest = asked[asking.end() :]
    led = _VERB.match(rest) if word else None
    rest = _trimmed(rest[led.end() :] if led else rest)
    verb = (led["verb"] or "") if led else ""
    clause = _trimmed(f"{noun}{rest}") or _trimmed(text) or text
    happens = verb.strip().lower() in _VERBS or word == "why"
    return Question(text, asked, scene, clause, happens, _pair(rest))


def names(text: str) -> list[str]:
    """The names in a text, each once, without the words a sentence only starts with."""
    found: list[str] = []
    for match in _NAME.finditer(text):
        name = match[0]
        while name and name.split()[0].lower() in STOP:
            _, _, name = name.partition(" ")
        if len(name) > 1 and name != "NOT":
            found.append(name)
    return list(dict.fromkeys(found))


def place(name: str, text: str) -> bool:
    """Whether a text speaks of a name as of a place."""
    before = r"\b(?:in|at|near|aboard|across|around|inside|leave|leaves|reach|reaches)"
    return bool(re.search(rf"{before} (?:the )?{re.escape(name)}\b", text))


def without_head(clause: str, asks: re.Pattern[str]) -> str:
    """A clause without the word it only asks by: the wreck, for the meaning of the wreck.

    Args:
        clause: what a question is about.
        asks: matches the words the question asks by.
    """
    found = _OF.match(clause)
    return found["rest"] if found and asks.search(found["head"]) else clause


def supposed(question: Question) -> str:
    """What a hypothetical question supposes."""
    found = _IF.search(question.asked)
    return _trimmed(found[1]) if found else question.clause


def _trimmed(clause: str) -> str:
    clause = clause.strip(' ,;:?.!"“”')
    found = _FALSE.match(clause)
    return found[1] if found else clause


def _pair(clause: str) -> tuple[str, str] | None:
    for pattern in _PAIRS:
        found = pattern.search(clause)
        if found and not _QUESTIONING.search(found["one"]):
            return _trimmed(found["one"]), _trimmed(found["two"])
    return None
