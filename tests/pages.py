"""What tests have of a page in Chromium: all that goes wrong on it, and who cannot read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

InChromium = Callable[[Callable[[Any], Any]], Any]
HURRIED = """for (const name of ["setTimeout", "setInterval"]) {
  const timer = window[name];
  window[name] = (work, wait, ...more) => timer(work, wait / 10, ...more);
}"""
"""Pages wait for a pause in what is typed, or before they ask again: here a tenth as long."""


class Watched:
    """A page in a window of its own, and all on it that should not be.

    Args:
        browser: Chromium.
        home: where all that it asks for comes from; anywhere, if empty.
        how: how the window is opened.
    """

    def __init__(self, browser: Any, home: str = "", **how: Any) -> None:
        self.context = browser.new_context(reduced_motion="reduce", **how)
        self.context.add_init_script(HURRIED)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.home = home
        self.wrong: list[str] = []
        self.page.on("request", self._asked)
        self.page.on("dialog", lambda one: (self.wrong.append(one.message), one.dismiss()))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._said)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.context.close()
        assert kind or self.wrong == []

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.home, "data:")):
            self.wrong.append(request.url)

    def _said(self, message: Any) -> None:
        # Chromium itself says there that a form was answered with 422.
        if "status of 422" not in message.text:
            self.wrong.append(message.text)


def unreadable(page: Any) -> list[str]:
    """What of a page not everybody can read, or find the way by: nothing, if all is well."""
    found: list[str] = page.evaluate(UNREADABLE)
    return found


def fits(page: Any) -> bool:
    """Whether nothing has to be scrolled sideways."""
    found: bool = page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    return found


UNREADABLE = """() => {
  const all = (names) => [...document.querySelectorAll(names)];
  const faults = [];
  const expect = (right, fault) => right || faults.push(fault);
  expect(document.documentElement.lang === "en", "language");
  expect(all("main").length === 1, "main");
  const levels = all("h1,h2,h3").map(one => Number(one.tagName[1]));
  expect(levels[0] === 1 && levels.filter(one => one === 1).length === 1, `headings ${levels}`);
  expect(levels.every((one, at) => !at || one <= levels[at - 1] + 1), `headings ${levels}`);
  const names = all("[id]").map(one => one.id);
  expect(new Set(names).size === names.length, `twice: ${names}`);
  for (const one of all("a[href^='#']")) {
    expect(names.includes(one.hash.slice(1)), `nowhere: ${one.hash}`);
  }
  for (const one of all("input:not([type=hidden]),textarea,select,progress")) {
    expect(one.labels.length, `no label: ${one.outerHTML}`);
  }
  for (const one of all("svg[role=img],img,[role=region],[role=group]")) {
    const named = one.alt || one.ariaLabel || one.getAttribute("aria-labelledby");
    expect(named, `no name: ${one.outerHTML}`);
  }
  return faults;
}"""

# The text of every visible element against what is behind it, as WCAG 2 reckons.
CONTRAST = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).slice(0, 3)
      .map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!colour.endsWith(", 0)")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  for (const one of document.querySelectorAll("body *")) {
    if (![...one.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    if (!one.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(one).color), light(behind(one))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) faint.push(one.outerHTML.slice(0, 90));
  }
  return faint;
}"""
