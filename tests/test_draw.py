"""Pictures of plans, as Mermaid text and as SVG."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pearl import draw
from pearl.graph import dependencies, levels, outputs
from pearl.plan import Plan, Ref, Step
from pearl.syntax import parse
from tests.conftest import ROOT

DEMOS = sorted((ROOT / "plans" / "demos").glob("*.plan"))
SVG = "{http://www.w3.org/2000/svg}"


def chain(*needs: tuple[str, ...]) -> Plan:
    """A plan of steps s0, s1, …, each using the named ones."""
    return Plan(
        tuple(
            Step(f"s{at}", "COMPARE", (Ref("CTX"), *(Ref(name) for name in names)))
            for at, names in enumerate(needs)
        )
    )


WIDE = chain((), (), (), ("s0", "s1"), ("s3",), ("s0", "s4"), (), ("s2", "s6", "s5"))


@pytest.mark.parametrize("path", DEMOS, ids=lambda path: path.stem)
def test_every_demonstration_can_be_drawn(path: Path):
    plan = parse(path.read_text(encoding="utf-8")).plan
    text = draw.mermaid(plan)
    picture = ElementTree.fromstring(draw.svg(plan))
    words = " ".join(picture.itertext())
    for step in plan.steps:
        assert step.name in words
        assert step.name in text
    assert len(re.findall(r"s\d+ --> s\d+", text)) == sum(
        len(inputs) for inputs in dependencies(plan.steps).values()
    )
    assert text.count("==> answer") == len(outputs(plan))


def boxes(plan: Plan) -> list[tuple[float, float, float, float]]:
    root = ElementTree.fromstring(draw.svg(plan))
    return [
        (float(box.get("x", 0)), float(box.get("y", 0)), float(box.get("width", 0)),
         float(box.get("height", 0)))
        for box in root.iter(f"{SVG}rect")
        if box.get("width", "").replace(".", "").isdigit()
    ]  # fmt: skip


def test_boxes_do_not_overlap():
    found = boxes(WIDE)
    assert len(found) >= len(WIDE.steps)
    for at, (x, y, width, height) in enumerate(found):
        for left, top, wide, high in found[at + 1 :]:
            apart = x + width <= left or left + wide <= x or y + height <= top or top + high <= y
            assert apart


def test_lines_keep_out_of_boxes():
    """No line's corner points lie inside a box."""
    root = ElementTree.fromstring(draw.svg(WIDE))
    found = boxes(WIDE)
    for path in root.iter(f"{SVG}path"):
        numbers = [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", path.get("d", ""))]
        for x, y in zip(numbers[::2], numbers[1::2], strict=False):
            inside = [
                box for box in found
                if box[0] + 1 < x < box[0] + box[2] - 1 and box[1] + 1 < y < box[1] + box[3] - 1
            ]  # fmt: skip
            assert not inside, (x, y)


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
