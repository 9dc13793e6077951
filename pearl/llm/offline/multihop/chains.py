"""What a comparison asks of each of its two things, one question after the other."""

from __future__ import annotations

import re

WORK = r"(?:film|movie|song|album|book|novel|band|group|magazine|series|play|game)"
"""Nouns that stand before a title."""

_MEANT = re.compile(
    r"\b(?P<role>director|composer|performer|singer|author|writer|producer|creator|founder"
    r"|screenwriter|owner|designer|architect|developer|publisher|lyricist|inventor)s?\b",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\b(?:more|most|many|fewer|fewest|number of|is an?|both|are) (?:\w+ )?$", re.I
)
_HAVING = re.compile(r"\b(?:whose|has|have|having|with|do|does|did|of|share|the)\b", re.IGNORECASE)
_SAME_LAND = re.compile(r"\b(?:same|which|what) (?:country|land)\b|\bnationalit", re.IGNORECASE)
_ASKED = tuple(
    (re.compile(pattern, re.IGNORECASE), question)
    for pattern, question in (
        (r"\bliv(?:ed|e) longer\b|\blonger life\b", "How long did {} live?"),
        (r"\bborn\b.*\bsame (?:place|city|town|country|state)\b", "Where was {} born?"),
        (r"\bdied?\b.*\bsame (?:place|city|town|country|state)\b", "Where did {} die?"),
        (r"\bdied?\b|\bdeath\b|\bdying\b", "When did {} die?"),
        (
            r"\bborn\b|\bolder\b|\byounger\b|\boldest\b"
            r"|\byoungest\b|\bbirth\b|\bage\b|\belder\b",
            "When was {} born?",
        ),
        (
            r"\bnationalit|\bfrom the same country\b|\bwhich country .*\bfrom\b"
            r"|\bcountr\w+ of origin\b|\boriginat",
            "What is the nationality of {}?",
        ),
        (
            r"\breleased?\b|\bcame out\b|\bcome out\b|\bdebut\b|\bpremiered?\b|\baired\b",
            "When was {} released?",
        ),
        (r"\bpublish\w*", "When was {} published?"),
        (
            r"\b(?:found|establish|form|creat|start|built|build|open|construct)\w*"
            r"(?= (?:first|earlier|later|last|before|more recently))"
            r"|(?<=first )\b(?:founded|established|formed|created|started|built|opened)\b",
            "When was {} founded?",
        ),
        (
            r"\blocat|\bsame (?:country|continent|city|state|county|region|province|place)\b"
            r"|\bsituated\b",
            "Where is {} located?",
        ),
        (
            r"\bprofession|\boccupation|\bjob\b|\bcareer\b|\bliving\b",
            "What was the profession of {}?",
        ),
        (r"\bgenre|\b(?:type|kind) of (?:films?|music|books?)\b", "What kind of work is {}?"),
        (r"\b(?:higher|taller|highest|tallest)\b(?=[ ,]*(?:$|\?|or\b|than\b))", "How high is {}?"),
        (
            r"\bin common\b|\bboth what\b"
            r"|\bwhat are\b|\bexamples? of\b",
            "What kind of thing is {}?",
        ),
    )
)
_MORE = re.compile(
    r"\b(?:more|most|fewer|fewest|greater number of|larger number of|highest number of) "
    r"(?!recent|likely|popular|famous|northern|southern|of\b)"
    r"(?P<what>[a-z]+(?: [a-z]+)?)(?=[ ,?]|$)"
)
_TRUTH = re.compile(r"^(?:are|is|was|were|do|does|did|has|have|had)\b", re.IGNORECASE)
_BEING = re.compile(
    r"^(?:which|what|who)(?: [\w-]+){0,4}? (?P<verb>is|was|are|were) "
    r"(?P<rest>(?!more\b|most\b).+)$",
    re.IGNORECASE,
)
_SETTING = re.compile(
    r"\b(?:both|each|either|the same|in common|and|or|between|they)\b ?", re.IGNORECASE
)
_SINGULAR = {"are": "Is", "were": "Was", "do": "Does", "have": "Has"}


def chain(frame: str) -> tuple[str, ...]:
    """What is asked of each thing, "{}" standing for it or for what was found last.

    Args:
        frame: the question without the names of the two.
    """
    found: list[str] = []
    role = _MEANT.search(frame)
    if role and _leads(frame, role):
        work = re.search(rf"\b({WORK})s?\b", frame, re.IGNORECASE)
        before = f"{work[1].lower()} " if work else ""
        found.append(f"Who is the {role['role'].lower()} of {before}{{}}?")
        if _SAME_LAND.search(frame):
            return (*found, "What is the nationality of {}?")
    counted = _MORE.search(frame)
    if counted:
        return (*found, f"How many {counted['what']} does {{}} have?")
    found += [question for pattern, question in _ASKED if pattern.search(frame)][:1]
    return tuple(found) or (_alone(frame),)


def _leads(frame: str, role: re.Match[str]) -> bool:
    """Whether a role is a step on the way, and not what is asked."""
    if re.match(rf" of (?:both )?(?:the )?{WORK}s?\b", frame[role.end() :]):
        return True
    before = frame[: role.start()]
    return not _COUNTED.search(before) and bool(_HAVING.search(before))


def _alone(frame: str) -> str:
    """The question asked of one thing only."""
    plain = " ".join(_SETTING.sub("", frame).replace(" ,", " ").split()).strip(" ,:;")
    truth = _TRUTH.match(plain)
    if truth:
        word = _SINGULAR.get(truth[0].lower(), truth[0].capitalize())
        return f"{word} {{}} {plain[truth.end() :].strip()}?".replace(" ?", "?")
    being = _BEING.match(plain)
    if being:
        word = _SINGULAR.get(being["verb"].lower(), being["verb"].capitalize())
        return f"{word} {{}} {being['rest'].strip()}?"
    return f"{plain} {{}}?"
