"""What a sentence says around the answer to a question of a known form."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ANY = r"(?:[\w’'-]+,? ){0,4}?"


@dataclass(frozen=True, slots=True)
class Relation:
    """A form of question, and the words that stand before its answer.

    Args:
        asks: matches such questions.
        before: matches what stands right before the answer's name, the surest first.
        titled: matches a sentence whose paragraph's title is the answer, where
            it also has the name that the question gives; None where it never is.
    """

    asks: re.Pattern[str]
    before: tuple[re.Pattern[str], ...]
    titled: re.Pattern[str] | None = None


def _relation(asks: str, *before: str, titled: str = "") -> Relation:
    return Relation(
        re.compile(asks, re.IGNORECASE),
        tuple(re.compile(rf"\b(?:{one})", re.IGNORECASE) for one in before),
        re.compile(rf"\b(?:{titled})", re.IGNORECASE) if titled else None,
    )


_BY = r"(?:,? (?:and )?[\w-]*(?:ed|written|shot|made|sung)\b){0,4} by (?:the |an? )?" + _ANY

RELATIONS = (
    _relation(
        r"\bdirector of\b|\bdirected\b",
        rf"(?:co-)?directed{_BY}",
        rf"director(?! of\b)(?: (?:is|was))?,? {_ANY}",
        rf"\b(?:film|movie|drama|comedy|thriller) (?:\w+ ){{0,2}}(?:by|of) {_ANY}",
        titled=r"directed|director",
    ),
    _relation(
        r"\b(?:performer|singer|composer|artist) of\b|\bwho (?:sang|sings|performed|composed)\b",
        rf"(?:performed|sung|composed|recorded|released|written|song|single|music|album|ballad)"
        rf"(?: and \w+)?(?: \w+){{0,3}}? by (?:the )?{_ANY}",
        rf"(?:singer|composer|artist|band|musician|rapper|group|duo)s? (?:and [\w-]+ )?{_ANY}",
    ),
    _relation(
        r"\b(?:author|writer) of\b|\bwrote\b|\bwritten\b|\bscreenwriter of\b",
        rf"(?:written|authored|screenplay|novel|book|poem|play|story|novella|essay)"
        rf"(?: \w+){{0,4}}? by (?:the )?{_ANY}",
        rf"(?:author|writer|novelist|poet) {_ANY}",
        titled=r"wrote|written|author|writer",
    ),
    _relation(
        r"\bfounder of\b|\bfounded\b",
        rf"founded{_BY}",
        rf"founder,? {_ANY}",
        titled=r"founder|founded",
    ),
    _relation(r"\bproducer of\b|\bproduced\b", rf"produced{_BY}", titled=r"produced|producer"),
    _relation(
        r"\bcreator of\b|\bcreated\b|\bpainted\b",
        rf"(?:created|painted|made|sculpted|designed|painting){_BY}",
        titled=r"created",
    ),
    _relation(
        r"\bfather of\b",
        rf"(?:son|daughter|child|heir) (?:and [\w-]+ )?(?:of|to) "
        rf"(?!(?:\w+ )?(?:mother|wife)){_ANY}",
        rf"(?:his|her) father,? (?:was )?{_ANY}",
        rf"father(?! of\b)(?: (?:is|was))?,? {_ANY}",
        rf"(?:born|succeeded) (?:to|his father,?) {_ANY}",
        titled=r"father of|(?:his|their) (?:\w+ ){0,2}(?:sons?|daughters?|child(?:ren)?)|children",
    ),
    _relation(
        r"\bmother of\b",
        rf"(?:son|daughter|child|heir) of [^.;]{{2,160}}? (?:and|by) "
        rf"(?:his|her) (?:\w+ ){{0,2}}(?:wife|consort|mother),? {_ANY}",
        rf"(?:son|daughter|child|heir) of [^.;]{{2,80}}? and {_ANY}",
        rf"(?:his|her) mother,? (?:was )?{_ANY}",
        rf"mother(?! of\b)(?: (?:is|was))?,? {_ANY}",
        rf"born to [^.;]{{2,80}}? and (?:his wife,? )?{_ANY}",
        rf"(?:son|daughter|child) of (?=[^.;]{{0,60}}\bher\b){_ANY}",
        rf"(?:son|daughter|child) of (?:actress|queen|princess|duchess|countess|lady) {_ANY}",
        titled=r"mother of|(?:her|their) (?:\w+ ){0,2}(?:sons?|daughters?|child(?:ren)?)|children",
    ),
    _relation(
        r"\b(?:spouse|wife|husband|widow) of\b|\bmarried\b|['’]s (?:spouse|wife|husband)\b",
        rf"(?:married|wed) (?:to )?{_ANY}",
        rf"(?:wife|husband|spouse|consort|widow)(?: (?:is|was|of))?,? {_ANY}",
        rf"marriage (?:to|with) {_ANY}",
        titled=r"wife|husband|married|consort|spouse",
    ),
    _relation(
        r"\b(?:child|son|daughter) of\b|['’]s (?:child|son|daughter)\b",
        rf"(?:father|mother|parent)s? of {_ANY}",
        rf"(?:sons?|daughters?|child(?:ren)?)(?: (?:is|are|was|were|named))?,? {_ANY}",
        titled=r"son of|daughter of|child of",
    ),
    _relation(
        r"\b(?:sibling|brother|sister) of\b|['’]s (?:sibling|brother|sister)\b",
        rf"(?:brother|sister|sibling)s?(?: (?:is|are|was|were|of|to))?,? {_ANY}",
        titled=r"brother|sister|sibling",
    ),
    _relation(
        r"\b(?:graduate|study|studied|educated|school|university|college|alma mater)\b",
        rf"(?:graduated from|educated at|attended|studied (?:[a-z]+ )?at"
        rf"|degree (?:[a-z]+ ){{0,3}}from"
        rf"|alumnus of|graduate of) (?:the )?{_ANY}",
    ),
    _relation(
        r"\b(?:work|worked|works|employed|employer)\b",
        rf"(?:work(?:ed|s|ing) (?:[a-z]+ )?(?:at|for|with)|employed by|professor at|staff of)"
        rf" (?:the )?{_ANY}",
    ),
    _relation(
        r"\bplay(?:s|ed)\b|\bactors?\b|\bactress\b|\bportray(?:s|ed)\b|\bstarred\b|\bstars?\b",
        rf"(?:played|portrayed|performed|voiced) by {_ANY}",
        rf"(?:starring|stars|starred|features|featuring) {_ANY}",
        titled=r"role|played|portrayed|starred|known for|appeared",
    ),
)

AWARDED = re.compile(r"\b(?:which|what) (?:is the )?(?:award|prize|medal|honou?r)\b", re.IGNORECASE)
AWARD = re.compile(r"\b(?:Award|Prize|Medal|Order|Oscar|Emmy|Grammy|Hall of Fame)")
CAUSED = re.compile(r"\bcause of death\b|^(?:why|how) did\b.*\bdie\b", re.IGNORECASE)
CAUSE = re.compile(
    r"\b(?:died|death|killed|suicide)\b[^.;]{0,40}? (?:of|from|by|due to|caused by|in) "
    r"(?:an? |the )?(?P<cause>[a-z][a-z -]{2,40})"
)
BURIED = re.compile(r"\bbur(?:ied|ial)\b|\binterred\b", re.IGNORECASE)
BORN = re.compile(r"\bborn\b|\bbirth", re.IGNORECASE)
DIED = re.compile(r"\bdie[sd]?\b|\bdeath\b", re.IGNORECASE)
PLACED = re.compile(
    r"^where\b|\b(?:place|city|town|country|state|county|province|region|village) of "
    r"(?:birth|death|burial)\b|\bbirthplace\b"
    r"|^in (?:what|which) (?:\w+ ){0,2}"
    r"(?:city|country|state|county|place|town|province)\b"
    r"|^(?:what|which) (?:\w+ )?"
    r"(?:city|country|state|county|place|town|province|continent|region)\b"
    r"|\bbased where\b|\bin (?:what|which) (?:\w+ ){0,2}(?:city|country|county|state|town)\b"
    r"|\b(?:what|who) is the (?:\w+ )?(?:city|country|state|county|town|province|venue|region)\b",
    re.IGNORECASE,
)
DATED = re.compile(
    r"^(?:when|what year|in what year|which year|in which year)\b"
    r"|\b(?:date|day|year) (?:of|was|when)\b|\bbirthday\b|\b(?:birth|death) date\b"
    r"|\b(?:what|which) year\b",
    re.IGNORECASE,
)
COUNTED = re.compile(
    r"\bhow (?:many|much|high|tall|old|long|large|big|far|often)\b|\bpopulation\b|\bpercentage\b"
    r"|\bwhat (?:number|amount)\b|\bnumber of\b|\bsalary\b|\bincome\b|\baverage\b|\bhow few\b",
    re.IGNORECASE,
)
OF_A_LAND = re.compile(
    r"\bnationalit|\b(?:which|what) country (?:is |was )?(?!the\b|of\b)[^?]* from\b"
    r"|\bcountry of (?:citizenship|origin)\b",
    re.IGNORECASE,
)
WORKED = re.compile(r"\bprofession\b|\boccupation\b|\bwhat kind of (?:work|thing)\b", re.IGNORECASE)
YES_OR_NO = re.compile(
    r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)\b", re.IGNORECASE
)
LANDS = re.compile(
    r"\b(?:American|British|English|Scottish|Welsh|Irish|French|German|Italian|Spanish|Portuguese"
    r"|Dutch|Belgian|Swiss|Austrian|Hungarian|Czech|Slovak|Slovenian|Polish|Russian|Soviet|Ukrainian"
    r"|Romanian|Bulgarian|Serbian|Croatian|Bosnian|Albanian|Macedonian|Greek|Turkish|Swedish"
    r"|Norwegian|Danish|Finnish|Icelandic|Estonian|Latvian|Lithuanian|Indian|Pakistani|Bangladeshi"
    r"|Nepalese|Sri Lankan|Chinese|Taiwanese|Japanese|(?:South |North )?Korean|Vietnamese|Thai"
    r"|Cambodian|Filipino|Indonesian|Malaysian|Singaporean|Australian|New Zealand|Canadian|Mexican"
    r"|Brazilian|Argentine|Argentinian|Chilean|Peruvian|Colombian|Venezuelan|Uruguayan|Cuban"
    r"|Jamaican|Puerto Rican|Israeli|Iranian|Persian|Iraqi|Syrian|Lebanese|Egyptian|Moroccan"
    r"|Algerian|Tunisian|South African|Nigerian|Ghanaian|Kenyan|Ethiopian|Armenian|Georgian"
    r"|Azerbaijani|Kazakh|Uzbek|Afghan|Saudi|Hong Kong)\b"
)
