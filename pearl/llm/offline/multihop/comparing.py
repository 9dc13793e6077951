"""Questions that set two named things side by side.

*Which film has the director who was born first, A or B?* asks the same of
both: the director, then the day. What is found out is noted behind each name
in brackets, so that a question that is half solved says what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pearl.llm.offline.multihop.chains import WORK, chain
from pearl.llm.offline.multihop.given import ASKED, NOTE

_STARTS = re.compile(
    r"^(?:(?:in|at|on|from|of|to|for|by) )?"
    r"(?:which|who|what|whose|where|when|how|are|is|was|were|do|does|did|has|have|had|can|between"
    r"|both|out of)\b",
    re.IGNORECASE,
)
_SETTING = re.compile(
    r"\b(?:both|same|in common|shared?|out of|between|each|either|also|or not|similar)\b"
    r"|^(?:are|is|was|were|do|does|did|have|has|had)\b",
    re.IGNORECASE,
)
_INTRODUCED = re.compile(
    rf"(?:the )?(?:[a-z]+ of )?(?:the )?(?:{WORK}s?,? )?(?:directors? of )?(?=\S)"
)
_JOINING = frozenset(
    "of the de del della di da du la le les el al von van der for to in on at a an & - – with from "
    "s and".split()
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the things compared.

    Args:
        name: as the question has it.
        end: where the name ends in the question without notes.
        notes: what has been found out about it, in the order it is asked for.
    """

    name: str
    end: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A question about two things.

    Args:
        text: the question without notes.
        frame: the question without the two names.
        things: the two.
        chain: what is asked of each, one after the other, "{}" standing for
            the name or for what was found last.
    """

    text: str
    frame: str
    things: tuple[Compared, Compared]
    chain: tuple[str, ...]

    def questions(self) -> list[tuple[int, str]]:
        """What is still to be asked: of which thing, and the sub-question."""
        found = []
        for level in range(len(self.chain)):
            for place, thing in enumerate(self.things):
                if len(thing.notes) == level:
                    about = thing.notes[-1] if thing.notes else thing.name
                    found.append((place, self.chain[level].replace("{}", about)))
        return found

    def noted(self, place: int, answer: str) -> str:
        """The question with an answer behind the name it is about."""
        answer = " ".join(answer.translate(_PLAIN).split())
        text = self.text
        for at in sorted((0, 1), key=lambda one: -self.things[one].end):
            notes = (*self.things[at].notes, answer) if at == place else self.things[at].notes
            end = self.things[at].end
            if notes:
                text = f"{text[:end]} [{'; '.join(notes)}]{text[end:]}"
        return text


_PLAIN = str.maketrans({"[": "(", "]": ")", ";": ","})


def compare(question: str) -> Comparison | None:
    """Take a comparison apart; None where the question is none."""
    if len(question) > ASKED:
        return None
    text, notes = _without_notes(question)
    end = len(text.rstrip(" ?.!"))
    for one, two in (*_either(text, end), *_both(text, end)):
        frame = " ".join(f"{text[: one[0]]} {text[one[1] : two[0]]} {text[two[1] : end]}".split())
        names = (text[slice(*one)], text[slice(*two)])
        things = tuple(
            Compared(name, place[1], notes.get(place[1], ()))
            for name, place in zip(names, (one, two), strict=True)
        )
        return Comparison(text, frame, (things[0], things[1]), chain(frame))
    return None


def _without_notes(question: str) -> tuple[str, dict[int, tuple[str, ...]]]:
    text, notes, last = "", {}, 0
    for note in NOTE.finditer(question):
        text += question[last : note.start()]
        notes[len(text)] = tuple(one.strip() for one in note[0].strip(" []").split(";"))
        last = note.end()
    return text + question[last:], notes


def _either(text: str, end: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """*…, A or B?*"""
    if not _STARTS.match(text):
        return
    for found in re.finditer(r",? or (?:the (?:film|song|band|book) )?(?=\S)", text[:end]):
        start, close = _left(text, found.start()), _right(text, found.end(), end)
        if start is not None and close > found.end():
            yield (start, found.start()), (found.end(), close)


def _left(text: str, end: int) -> int | None:
    """Where the name begins that ends here: behind a comma, or with its first capital."""
    for comma in re.finditer(r"(?:[,:;?–-]|\bbetween|\bout of)\s+", text[:end]):
        head = text[: comma.start()].split()
        if len(head) > 1 and _name(text[comma.end() : end]) and not _inside_name(head):
            return comma.end()
    return _run_left(text, end)


def _inside_name(head: list[str]) -> bool:
    """Whether a comma stands within a name: behind a word in capitals that is not the first."""
    return len(head) > 1 and head[-1][:1].isupper() and head[-2][:1].isupper()


def _run_left(text: str, end: int) -> int | None:
    at = None
    for word in reversed(list(re.finditer(r"\S+", text[:end]))):
        bare = word[0].strip("\"'“”(),")
        if word.start() == 0 and _STARTS.match(bare):
            break
        if _name(word[0]):
            at = word.start()
        elif bare not in _JOINING:
            break
    return at


def _name(text: str) -> bool:
    bare = text.lstrip("\"'“‘(")
    return bool(bare) and (bare[0].isupper() or bare[0].isdigit())


def _right(text: str, start: int, end: int) -> int:
    """Where the name ends that begins here."""
    if not _name(text[start:end]) and not text[start:end].startswith("the "):
        return start
    close, waiting = start, 0
    for word in re.finditer(r"\S+", text[start:end]):
        named = _name(word[0]) or not word[0][0].isalnum()
        if not named:
            waiting += 1
            if word[0].strip(",") not in _JOINING or waiting > 3:
                break
            continue
        waiting, close = 0, start + word.end()
    return start + len(text[start:close].rstrip(" ,"))


def _both(text: str, end: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """*Are both A and B …?*, *What … do A and B have in common?*"""
    if not _SETTING.search(text):
        return
    found = []
    for joint in re.finditer(r",? and ", text[:end]):
        introduced = _INTRODUCED.match(text, joint.end())
        begin = joint.end()
        if introduced and _name(text[introduced.end() : end]):
            begin = introduced.end()
        start, close = _run_left(text, joint.start()), _right(text, begin, end)
        if start is not None and close > begin and _name(text[begin:close]):
            found.append(((start, joint.start()), (begin, close)))
    # A name may hold an "and"; the last one is between the two.
    yield from reversed(found)
