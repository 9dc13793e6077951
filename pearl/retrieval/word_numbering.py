"""The automatic numbers of a Word file's paragraphs. Word counts them when it shows the file, which
holds only how each list counts (ECMA-376, part 1, section 17.9)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.etree import _Element

_LONGEST_TEXT = 100
"""The most characters of the text in which a level shows its number."""

_LONGEST = 30
"""The most letters of a number such as *aaa*, which is Word's own limit."""


@dataclass(frozen=True, slots=True)
class _Level:
    """How one level of a list counts: from ``start``, in the numbering format ``form``, shown as
    ``text``, in which %1 is the number of the first level; ``style`` names the paragraph style that
    is linked to it. It begins anew after a paragraph of level ``restart`` or above (counted from 1;
    0: never), and ``legal`` levels show all numbers in digits."""

    start: int
    form: str
    text: str
    restart: int
    legal: bool
    style: str | None


@dataclass(frozen=True, slots=True)
class _List:
    """A list: which lists it shares its counts with, its levels, and where some begin anew."""

    counts: str | None
    levels: Mapping[int, _Level]
    starts: Mapping[int, int]


def numbered(document: bytes, numbering: bytes, styles: bytes | None) -> bytes:
    """The main part of a Word file, with its automatic numbers as text of their paragraphs, which
    are then no items of lists. Items with bullets stay as they are.

    Args:
        document: the main part, as XML.
        numbering: the part that defines the lists.
        styles: the part that defines the styles.
    """
    from lxml import etree

    def parsed(part: bytes) -> _Element:
        # A text may be long. The caller bounds memory and time.
        return etree.fromstring(part, etree.XMLParser(resolve_entities=False, huge_tree=True))

    root = parsed(document)
    of_style = {} if styles is None else _styles(parsed(styles))
    lists = _lists(parsed(numbering), of_style)
    place_of = cache(partial(_place, of_style, lists))
    counts: dict[str | None, dict[int, int]] = {}
    begun: set[tuple[str, int]] = set()
    space = f"{{{etree.QName(root).namespace}}}"
    joined = None
    for paragraph in root.iter(f"{space}p"):
        # What a drawing holds stands a second time in the fallback, which is what is read.
        if next(paragraph.iterancestors("{*}Choice"), None) is not None:
            continue
        properties = paragraph.find("{*}pPr")
        first, joined = joined if joined is not None else paragraph, None
        if properties is not None and properties.find("{*}rPr/{*}moveFrom") is not None:
            continue
        if properties is not None and properties.find("{*}rPr/{*}del") is not None:
            # The text of a paragraph whose end is deleted begins the next one.
            joined = first
            continue
        if properties is None:
            continue
        told = (_value(properties, path) for path in ("pStyle", "numPr/numId", "numPr/ilvl"))
        if (place := place_of(*told)) is None:
            continue
        name, level = place
        one = lists[name]
        so_far = counts.setdefault(one.counts, {})
        if level in one.starts and (name, level) not in begun:
            so_far[level] = one.starts[level]
        else:
            so_far[level] = so_far.get(level, one.levels[level].start - 1) + 1
        begun.add((name, level))
        for deeper in [at for at in so_far if at > level]:
            if deeper not in one.levels or level < one.levels[deeper].restart:
                del so_far[deeper]
        if one.levels[level].form == "bullet":
            continue
        for old in properties.findall("{*}numPr"):
            properties.remove(old)
        # Number 0 takes away the number that the style gives.
        none = etree.SubElement(properties, f"{space}numPr")
        for key in ("ilvl", "numId"):
            etree.SubElement(none, f"{space}{key}").set(f"{space}val", "0")
        label = _label(one, level, so_far)
        if label and any(text.text for text in paragraph.iter(f"{space}t")):
            run = paragraph.makeelement(f"{space}r")
            etree.SubElement(run, f"{space}t").text = f"{label} "
            first.insert(1, run)
    shown: bytes = etree.tostring(root.getroottree(), encoding="utf-8", xml_declaration=True)
    return shown


@dataclass(frozen=True, slots=True)
class _Style:
    """What a style says of numbers: its list, its level, and the style that it is based on."""

    number: str | None
    level: int | None
    base: str | None


def _styles(styles: _Element) -> dict[str | None, _Style]:
    return {
        _value(style, "", "styleId"): _Style(
            _value(style, "pPr/numPr/numId"),
            _count(_value(style, "pPr/numPr/ilvl")),
            _value(style, "basedOn"),
        )
        for style in styles.iterfind("{*}style")
    }


def _lists(numbering: _Element, styles: Mapping[str | None, _Style]) -> dict[str, _List]:
    kinds = {_value(each, "", "abstractNumId"): each for each in numbering.iter("{*}abstractNum")}
    numbers = {_value(each, "", "numId"): each for each in numbering.iter("{*}num")}
    lists: dict[str, _List] = {}
    for name, number in numbers.items():
        counts = _value(number, "abstractNumId")
        style = styles.get(_value(kinds[counts], "numStyleLink")) if counts in kinds else None
        if style and style.number in numbers:
            # The levels are those of the list that the style names.
            counts = _value(numbers[style.number], "abstractNumId")
        if name is None or counts not in kinds:
            continue
        changed = number.findall("{*}lvlOverride")
        levels = [*kinds[counts].iterfind("{*}lvl")]
        levels += [level for each in changed for level in each.iterfind("{*}lvl")]
        starts = {
            _count(_value(each, "", "ilvl")) or 0: start
            for each in changed
            if (start := _count(_value(each, "startOverride"))) is not None
        }
        read = {_count(_value(level, "", "ilvl")) or 0: _level(level) for level in levels}
        lists[name] = _List(counts, read, starts)
    return lists


def _level(level: _Element) -> _Level:
    restart = _count(_value(level, "lvlRestart"))
    return _Level(
        _count(_value(level, "start")) or 0,
        _value(level, "numFmt") or "decimal",
        (_value(level, "lvlText") or "")[:_LONGEST_TEXT],
        9 if restart is None else restart,
        level.find("{*}isLgl") is not None,
        _value(level, "pStyle"),
    )


def _place(
    styles: Mapping[str | None, _Style],
    lists: Mapping[str, _List],
    style: str | None,
    number: str | None,
    level: str | None,
) -> tuple[str, int] | None:
    """The list of a paragraph and its level there, by its own properties or by its style."""
    chain: dict[str | None, _Style] = {}
    while style in styles and style not in chain:
        chain[style] = styles[style]
        style = styles[style].base
    numbers = [number, *(each.number for each in chain.values())]
    name = next(filter(None, numbers), "")
    if name not in lists:
        return None
    levels = lists[name].levels
    linked = {each.style: at for at, each in levels.items()}
    given = [_count(level), *(linked.get(key, each.level) for key, each in chain.items())]
    found = next((at for at in given if at is not None), 0)
    return (name, found) if found in levels else None


def _label(one: _List, level: int, counts: Mapping[int, int]) -> str:
    """The number of a paragraph, as Word shows it."""
    legal = one.levels[level].legal

    def number(match: re.Match[str]) -> str:
        at = int(match[1]) - 1
        if at not in one.levels:
            return ""
        form = "decimal" if legal else one.levels[at].form
        return in_form(counts.get(at, one.levels[at].start), form)

    return re.sub(r"%([1-9])", number, one.levels[level].text).strip()


def in_form(number: int, form: str) -> str:
    """A number in a numbering format of Word, or with the letters of HTML, where ab follows aa, and
    not bb (``lowerAlpha``); in digits where it is another format, or has no such number."""
    if form == "none":
        return ""
    if form == "decimalZero":
        return f"{number:02}"
    text = str(number)
    if form.endswith("Letter") and 0 < number <= 26 * _LONGEST:
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif form.endswith("Alpha") and number > 0:
        text = ""
        while number:
            number, letter = divmod(number - 1, 26)
            text = chr(ord("a") + letter) + text
    elif form.endswith("Roman") and 0 < number < 4000:
        units = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
        tens = str.maketrans("ivx", "xlc")
        hundreds = str.maketrans("ivx", "cdm")
        text = "m" * (number // 1000) + units[number // 100 % 10].translate(hundreds)
        text += units[number // 10 % 10].translate(tens) + units[number % 10]
    return text.upper() if form.startswith("upper") else text


def _value(element: _Element, path: str, name: str = "val") -> str | None:
    """An attribute of an element, or of the one that a path leads to."""
    found = element.find("/".join(f"{{*}}{tag}" for tag in path.split("/"))) if path else element
    if found is None:
        return None
    values = (str(value) for key, value in found.attrib.items() if key.endswith(f"}}{name}"))
    return next(values, None)


def _count(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?[0-9]{1,9}", text) else None
