"""Words that questions are made with: relations, kin, verbs."""

from __future__ import annotations

import re

KIN = {
    "paternal grandfather": ("father", "father"),
    "paternal grandmother": ("father", "mother"),
    "maternal grandfather": ("mother", "father"),
    "maternal grandmother": ("mother", "mother"),
    "father-in-law": ("spouse", "father"),
    "mother-in-law": ("spouse", "mother"),
    "parent-in-law": ("spouse", "parent"),
    "brother-in-law": ("spouse", "brother"),
    "sister-in-law": ("spouse", "sister"),
    "sibling-in-law": ("spouse", "sibling"),
    "child-in-law": ("child", "spouse"),
    "son-in-law": ("child", "husband"),
    "daughter-in-law": ("child", "wife"),
    "stepmother": ("father", "wife"),
    "stepfather": ("mother", "husband"),
    "stepchild": ("spouse", "child"),
    "grandchild": ("child", "child"),
    "grandson": ("child", "son"),
    "granddaughter": ("child", "daughter"),
    "grandfather": ("father", "father"),
    "grandmother": ("mother", "mother"),
    "uncle": ("father", "brother"),
    "aunt": ("father", "sister"),
}
"""Kin by two steps."""

PERSON = (
    "actor actress artist author baronet bassist boxer brother captain ceo champion character chef "
    "child coach comedian commander composer conductor count countess creator daughter designer "
    "developer dictator director drummer duke editor emperor empress engineer entertainer "
    "essayist executive father fighter filmmaker footballer founder friend girlfriend boyfriend "
    "golfer governor guitarist head heir host husband inventor journalist judge keyboardist king "
    "leader lyricist maker man manager mayor member minister mother musician narrator novelist "
    "officer owner painter parent partner performer person philosopher physicist player playwright "
    "poet politician pope president prince princess producer professor queen rapper ruler scholar "
    "scientist screenwriter sculptor senator sibling singer sister soldier son songwriter speaker "
    "spouse star teacher vocalist wife winner woman writer widow monarch criminal lawyer pilot "
    "architect astronaut explorer secretary chancellor boy girl guy people professional "
    "cinematographer runner-up caesar lord lady teammate sprinter racer killer"
).split()

PLACE = (
    "city town village country county state province region continent district nation place "
    "capital birthplace island location area territory municipality neighborhood borough suburb "
    "river lake mountain venue stadium arena section headquarters"
).split()

BODY = (
    "company band group team organization organisation party school university college club label "
    "network institution league bank airline magazine newspaper agency studio body employer "
    "business brand publisher distributor broadcaster record church army"
).split()

WORK = "film movie song album book novel play opera series show game poem story documentary".split()

RELATED = (
    "seat administration birthplace capital country county city state province continent "
    "district region currency language nationality religion cast cover theme lyrics music score "
    "headquarters alma label sequel origin birth death"
).split()

_AUXILIARY = "is are was were be been being has have had can could will would may might".split()
_DO = "did does do".split()
_PAST = (
    "made won wrote sang built held began found became led left fought gave took went saw bought "
    "sold met ran got came drew grew knew shot stood taught told thought wore said born known "
    "written won given taken seen shown done gone spoken begun sung drawn kept lost paid sent "
    "spent put set hit cut stars plays owns lies serves features contains borders hosts "
    "headquartered bears rules runs represents belongs lives works comes means uses holds"
).split()
_BARE = (
    "die become play occur begin end start win receive have get graduate move join live work "
    "serve make take go come lose leave happen marry attend study run release write sing direct "
    "appear found establish meet open close represent belong reside perform sign form "
    "own speak border sell buy invade gain follow star use host produce sit lie change adopt "
    "merge introduce return rule reign retire collaborate share earn"
).split()
_NOT_VERBS = frozenset(
    "united red need hundred bed speed aged seed indeed shed need-based armed so-called".split()
)
_VERBS = frozenset((*_AUXILIARY, *_DO, *_PAST, *_BARE))
BARE = frozenset(_BARE)
_PEOPLE = frozenset(PERSON)
_INANIMATE = frozenset((*WORK, *PLACE, *BODY, "single", "sitcom", "sequel", "painting", "genus"))
_THINGS = frozenset((*RELATED, *PLACE, *BODY))


def is_verb(word: str) -> bool:
    """Whether a word in lower case is likely to be a verb."""
    word = word.strip("\"'”’,;:?!()")
    if not word or not word[0].islower():
        return False
    return word in _VERBS or (word.endswith("ed") and word not in _NOT_VERBS)


def is_role(word: str) -> bool:
    """Whether a word in lower case is likely to name somebody by what he is to something."""
    return is_person(word) or bool({word, word.removesuffix("s")} & _THINGS)


def is_person(word: str) -> bool:
    """Whether a noun is one for people."""
    plain = word.lower()
    return bool({plain, plain.removesuffix("s")} & _PEOPLE)


def is_thing(word: str) -> bool:
    """Whether a noun is one for places, bodies or works."""
    plain = word.lower()
    return bool({plain, plain.removesuffix("s")} & _INANIMATE)


def who(noun: str) -> str:
    """The word to ask after something with."""
    return "Who" if noun.split() and is_person(noun.split()[-1]) else "What"


OPENER = re.compile(
    r"\b(?P<noun>[\w'’.-]+),? (?P<by>that|who|whom|which|where|whose"
    r"|(?:in|on|at|of|for|by|from|to|with|under|during) (?:which|whom)|with|when"
    r"|directed|written|founded|located|released|produced|published|created|owned|based|composed|performed|featuring"
    r"|starring|playing|recorded|developed|designed|painted|portrayed|played|led|established"
    r"|widely|containing|hosting|built|situated|invented|discovered"
    r"|represented|sung|held|bordering|described|used)\b"
)
"""A noun, and what opens a clause that says which one is meant."""
