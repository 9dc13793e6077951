"""Pictures of plans, as Mermaid text and as SVG."""

import re
from collections.abc import Iterator
from itertools import chain as chain_of
from itertools import combinations, pairwise
from operator import mul
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pearl.lang import graph as draw
from pearl.lang.ast import Plan, Ref, Step
from pearl.lang.graph import dependencies, levels, outputs
from pearl.lang.parser import parse
from tests.conftest import ROOT

DEMOS = sorted((ROOT / "plans" / "demos").glob("*.plan"))
SVG = "{http://www.w3.org/2000/svg}"


def chain(*needs: tuple[str, ...]) -> Plan:
    """A plan of steps s0, s1, …, each using the named ones."""
    args = (tuple(map(Ref, ("CTX", *names))) for names in needs)
    return Plan(tuple(Step(f"s{at}", "COMPARE", one) for at, one in enumerate(args)))


WIDE = chain((), (), (), ("s0", "s1"), ("s3",), ("s0", "s4"), (), ("s2", "s6", "s5"))


@pytest.mark.parametrize("path", DEMOS, ids=lambda path: path.stem)
def test_every_demonstration_can_be_drawn(path: Path):
    plan = parse(path.read_text(encoding="utf-8")).plan
    text = draw.mermaid(plan)
    words = " ".join(drawn(plan).itertext())
    assert all(step.name in words and step.name in text for step in plan.steps)
    needed = sum(map(len, dependencies(plan.steps).values()))
    assert len(re.findall(r"s\d+ --> s\d+", text)) == needed
    assert text.count("==> answer") == len(outputs(plan))


def drawn(plan: Plan) -> ElementTree.Element:
    return ElementTree.fromstring(draw.svg(plan))


def boxes(plan: Plan) -> list[tuple[float, ...]]:
    """Left and upper end, width and height of each."""
    sizes = ("x", "y", "width", "height")
    rects = (box for box in drawn(plan).iter(f"{SVG}rect") if "%" not in box.get("width", ""))
    return [tuple(float(box.get(size, 0)) for size in sizes) for box in rects]


def lines(plan: Plan) -> list[str]:
    """The paths of the lines between boxes."""
    paths = drawn(plan).iter(f"{SVG}path")
    return [path.get("d", "") for path in paths if "line" in path.get("class", "")]


def test_levels_are_the_longest_way_down():
    assert levels(dependencies(WIDE.steps)) == {
        "s0": 0, "s1": 0, "s2": 0, "s3": 1, "s4": 2, "s5": 3, "s6": 0, "s7": 4,
    }  # fmt: skip


@pytest.mark.parametrize("text", ['<script>x</script>"&', "\x00\x0b\ud800", "]] --> --", "名" * 90])
def test_a_plans_words_are_only_words(text: str):
    plan = Plan((Step("a", "COMPARE", (Ref("CTX"),), text),), text)
    root = ElementTree.fromstring(draw.svg(plan).encode("utf-8"))
    assert not list(root.iter(f"{SVG}script"))
    assert root.get("role") == "img"
    assert "<script" not in draw.mermaid(plan)


def points(path: str) -> Iterator[tuple[float, float]]:
    """Points along a path of M, L and C."""
    here = (0.0, 0.0)
    for letter, rest in re.findall(r"([MLC])([^MLC]*)", path):
        numbers = [float(one) for one in rest.split()]
        ends = list(zip(numbers[::2], numbers[1::2], strict=True))
        if letter == "C":
            a, b, c = ends
            for at in range(1, 21):
                t = at / 20
                weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
                x, y = (sum(map(mul, weights, one)) for one in zip(here, a, b, c, strict=True))
                yield x, y
        elif letter == "L":
            for at in range(21):
                yield here[0], here[1] + (ends[0][1] - here[1]) * at / 20
        here = ends[-1]


MANY = chain(
    (), ("s0",), ("s1",), ("s2", "s0"), ("s3", "s1"), ("s0",), ("s5", "s4"), ("s6", "s0", "s1"),
    (), ("s8", "s0"), ("s7", "s9"), ("s10", "s0", "s8"),
)  # fmt: skip
LOOSE = chain(*[() for _ in range(9)], ("s0",), ("s9", "s2"))
LONG = Plan(tuple(Step(f"{char * 60}{at}", char * 70, ()) for at, char in enumerate("WMi_名å")))


@pytest.mark.parametrize("plan", [WIDE, MANY, LOOSE, LONG, chain(())])
def test_everything_is_on_the_page_and_no_line_or_box_lies_on_a_box(plan: Plan):
    root, found = drawn(plan), boxes(plan)
    assert len(found) >= len(plan.steps)
    for (x, y, width, height), (left, top, wide, high) in combinations(found, 2):
        assert x + width <= left or left + wide <= x or y + height <= top or top + high <= y
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for left, top, wide, high in found:
        assert min(left, top) >= 20
        assert (left + wide <= width - 20, top + high <= height - 20) == (True, True)
    needed = sum(map(len, dependencies(plan.steps).values()))
    assert len(lines(plan)) == needed + len(outputs(plan))
    for x, y in chain_of.from_iterable(map(points, lines(plan))):
        assert 0 < x < width
        for left, top, wide, high in found:
            assert not (left < x < left + wide and top + 1 < y < top + high - 1)


def ends(plan: Plan) -> list[tuple[float, ...]]:
    """Where the stretches of lines between two rows start and end."""
    found = []
    for path in lines(plan):
        numbers = re.findall(r"[MLC]([^MLC]*)", path)
        corners = [tuple(map(float, one.split()[-2:])) for one in numbers]
        found += [(*corners[at], *corners[at + 1]) for at in range(0, len(corners) - 1, 2)]
    return found


def crossings(plan: Plan) -> int:
    pairs = combinations(ends(plan), 2)
    return sum(
        y == above and (x - left) * (to - right) < 0
        for (x, y, to, _), (left, above, right, _) in pairs
    )


@pytest.mark.parametrize(
    ("plan", "count"),
    [
        # The lower row is put in order by the upper one, and the upper by the lower.
        (chain((), (), (), ("s2",), ("s1",), ("s0",)), 0),
        (chain((), (), (), (), ("s0", "s2"), ("s1", "s3")), 0),
        # It takes one sweep down and two up, as rows further away follow.
        (chain((), (), ("s0",), ("s1",), ("s0",), ("s1",), ("s2", "s4"), ("s3", "s5")), 0),
        (WIDE, 0),
        (MANY, 1),
    ],
)
def test_lines_do_not_cross_where_they_need_not(plan: Plan, count: int):
    assert crossings(plan) == count


@pytest.mark.parametrize("plan", [WIDE, MANY, LOOSE, LONG])
def test_neighbours_stand_a_gap_apart(plan: Plan):
    rows: dict[float, list[tuple[float, float]]] = {}
    for x, y, width, _ in boxes(plan):
        rows.setdefault(y, []).append((x, x + width))
    for _, _, x, y in ends(plan):
        if y in rows and not any(left <= x <= right for left, right in rows[y]):
            rows[y].append((x - 9, x + 9))
    gaps = [right[0] - left[1] for row in rows.values() for left, right in pairwise(sorted(row))]
    assert min(gaps) == pytest.approx(32, abs=0.01)


def test_a_step_stands_below_the_middle_of_what_it_uses():
    texts = drawn(chain((), (), ("s0", "s1"))).iter(f"{SVG}text")
    names = (text for text in texts if text.get("class") == "name")
    left, right, below, answer = (float(text.get("x", 0)) for text in names)
    assert below == answer == (left + right) / 2
    assert (left, right) == (84, 236)
    # Nodes that would overlap stand where they wish on average, each with the same weight.
    placed = [x for x, *_ in boxes(WIDE)]
    assert placed == [24, 176, 328, 480, 201.625, 201.625, 163.625, 213.625, 213.625]


def test_words_fit_their_boxes():
    """By the widths of DejaVu Sans Bold, which is wider than what most screens have."""
    ems = {"W": 1.11, "M": 1.0, "i": 0.35, "_": 0.5, "名": 1.0, "å": 0.68, "…": 1.0}
    for group in drawn(LONG).iter(f"{SVG}g"):
        box = group.find(f"{SVG}rect")
        for text in group.findall(f"{SVG}text"):
            size = 15 if text.get("class") == "name" else 12
            length = sum(ems.get(char, 0.7) for char in text.text or "") * size
            assert box is not None
            assert length <= float(box.get("width", 0)) - 8
            assert "…" in (text.text or "")


def test_a_picture_names_itself_and_is_drawn_the_same_each_time():
    plan = parse("question: Who & why?\n1. a = F(CTX)\n2. b = G(a) : note\n").plan
    root = drawn(plan)
    assert root.get("aria-label") == "Who & why?"
    assert root.findtext(f"{SVG}title") == "Who & why?"
    assert [group.findtext(f"{SVG}title") for group in root.iter(f"{SVG}g")] == ["F", "note"]
    assert "prefers-color-scheme:dark" in draw.svg(plan)
    assert draw.svg(plan) == draw.svg(plan)


def test_a_plan_without_steps_is_an_empty_picture():
    ElementTree.fromstring(draw.svg(Plan()))
    assert "s0" not in draw.mermaid(Plan())


def test_names_in_mermaid_are_escaped():
    plan = Plan((Step('a"]; click', "F<b>[x](y)|`{}#", ()),))
    box = draw.mermaid(plan).splitlines()[1]
    assert box == (
        '    s0["a#34;#93;#59; click<br/>'
        'F#60;b#62;#91;x#93;#40;y#41;#124;#96;#123;#125;#35;"]'
    )  # fmt: skip
