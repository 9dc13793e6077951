"""Which words of a question call for which kind of action, by the words it is defined with.

No action's name stands here: the words on the right are looked up in the
names and definitions of whatever library there is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pearl.values import Type


@dataclass(frozen=True, slots=True)
class Cue:
    """A form of question.

    Args:
        asks: matches questions of this form.
        words: what an action for it is likely to be called, and defined with.
        returns: a type that only such a question asks for.
        whole: whether it may be asked of the document as a whole.
        supposes: whether it asks about what did not happen.
        false: whether it asks for what is not so, and only the options say what is.
    """

    asks: re.Pattern[str]
    words: str
    returns: Type = "text"
    whole: bool = False
    supposes: bool = False
    false: bool = False


def _cue(asks: str, words: str, returns: Type = "text", **form: bool) -> Cue:
    return Cue(re.compile(asks, re.IGNORECASE), words, returns, **form)


TOPIC = "summarize summary everything about topic condense"
EVENT = "event happening happens what took part"
PERSON = "character person who"

CUES = (
    # First what turns a question's sense, then what it starts with, then its other words.
    _cue(
        r"\bexcept\b|\b(?:which|what)\b.*\b(?:is|are|was|were|does|did|do|would) (?-i:NOT)\b"
        r"|\b(?:which|what) of .*\b(?:not|false|untrue)\b|\bleast likely\b",
        TOPIC,
        false=True,
    ),
    _cue(
        r"\bif\b.*\bwould\b|\bwould\b.*\bif\b|\bwould\b.*\bhave happened\b",
        "hypothetical predict followed outcome had been",
        supposes=True,
    ),
    _cue(r"\biron(?:y|ic|ically)\b", "irony ironic opposite expected"),
    _cue(r"^why\b|\breasons?\b|\bmotiv(?:e|ation)", "reason why motive behind behavior"),
    _cue(r"^in (?:what|which) order\b|\bchronolog|\bsequence\b", "timeline order sequence events"),
    _cue(r"\bhow (?:many|much|often)\b", "quantity number figure count many", "number"),
    _cue(r"\bhow long\b|\bhow much time\b", "duration time passes long"),
    _cue(
        r"\b(?:main|central) (?:idea|argument|point|claim|message)\b|\bthesis\b",
        "main idea central claim whole summarize",
        whole=True,
    ),
    _cue(r"\bthemes?\b", "themes theme ideas whole", whole=True),
    _cue(r"\bgenre\b|\bkind of (?:text|writing)\b", "genre kind writing", whole=True),
    _cue(r"\bnarrator\b|\bpoint of view\b", "narrator point view tells", whole=True),
    _cue(
        r"\bmoral\b|\blessons?\b|\bteach\b.* (?:reader|us)\b|\blearn from\b", "lesson moral insight"
    ),
    _cue(r"\b(?:author|writer)\b.*\b(?:purpose|use|include|contribute|mention)", "author purpose"),
    _cue(r"\bauthor\b|\bauthors['’]|\bwriter\b|\bessay\b", "author stance position writer"),
    _cue(r"\brelation(?:ship)?s?\b|\brelated\b|\bknow each other\b", "relation relationship stand"),
    _cue(r"\bcompar|\bcontrast|\bdiffer|\bunlike\b", "compare contrast differences comparison"),
    _cue(r"\bin common\b|\bsimilar|\balike\b", "common similarities share features"),
    _cue(r"\bfeel|\bfelt\b|\bemotion|\bafraid\b|\bangry\b", "emotion feeling feelings"),
    _cue(r"\bthink|\bopinion|\bview\b|\battitude|\bregard\b", "opinion attitude judgement view"),
    _cue(r"\breact|\brespon[ds]", "reaction does says immediately"),
    _cue(r"\btone\b|\bmood\b", "tone mood voice"),
    _cue(r"\bsymbol|\bstand for\b|\brepresent", "symbolism symbol stands"),
    _cue(r"\bmean(?:s|ing|t)?\b|\bphrase\b|\brefer", "meaning sense word phrase"),
    _cue(r"\bsignifican|\bimportan", "significance importance matters"),
    _cue(r"\bresults?\b|\beffects?\b|\bconsequence|\bled to\b|\boutcome", "effect result follow"),
    _cue(r"\bcaused?\b|\bexplanation\b|\bexplain", "cause explain explanation"),
    _cue(r"\blie[ds]?\b|\bdeceiv|\bpretend|\bhid(?:e|es|ing)?\b", "deception lie trick deceive"),
    _cue(
        r"\bchang(?:e|ed|es|ing)\b|\bbecome|\btransform|\bevolv",
        "change changes transformation",
    ),
    _cue(
        r"\btraits?\b|\bpersonalit|\bkind of (?:person|man|woman)\b", "traits character qualities"
    ),
    _cue(r"^(?:by |with |to )?who(?:m|se)?\b", PERSON),
    _cue(r"^when (?:do|does|did|is|was|were|will)\b|\bwhat (?:time|year|day)\b", "time when date"),
    _cue(r"^where\b", "location place where"),
    _cue(r"\bpurpose\b|\bintend|\bgoal\b|\baims?\b", "goal purpose intent aim"),
    _cue(r"\bbenefit|\badvantage", "benefits benefit gains"),
    _cue(
        r"\bchallenge|\bdifficult|\bobstacle|\bproblem|\bconcern", "obstacles difficulty challenge"
    ),
    _cue(r"\bevidence\b|\bsupport|\bexamples?\b", "evidence claim facts example"),
    _cue(r"\bimpl(?:y|ied|ies)|\bsuggest|\binfer|\bconclude|\bshows?\b", "infer conclusion clues"),
    _cue(r"\bwill\b.*\bhappen\b|\bhappens? after\b|\bfuture\b", "future fate becomes ends ending"),
    _cue(r"\bdescrib", "description describe details"),
    _cue(r"^how\b", "method process carried way steps"),
    _cue(r"\bhappen|\bevent", EVENT),
)
