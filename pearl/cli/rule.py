"""``pearl rule``"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pearl.cli.options import emit_json, json_option

if TYPE_CHECKING:
    from pearl.lint.rules.base import Rule


@click.command(
    "rule", short_help="Say what a rule means, with an example.",
    epilog="Example:  pearl rule PRL201",
)  # fmt: skip
@click.argument("code", default="")
@json_option
def command(code: str, as_json: bool) -> None:
    """Explain the rule CODE (PRL201, or its name); without CODE, list all rules."""
    if not code:
        _list(as_json=as_json)
        return
    rule = _find(code)
    if as_json:
        emit_json({**_summary(rule), "documentation": rule.doc.strip()})
        return
    off = "" if rule.enabled else ", off unless selected"
    click.echo(click.style(f"{rule.code} {rule.name} ({rule.severity}{off})\n", bold=True))
    click.echo(rule.doc.strip())


def _find(code: str) -> Rule:
    from pearl.lang.source import InputError
    from pearl.lint.rules import RULES

    for rule in RULES:
        if code.upper() == rule.code or code.lower() == rule.name:
            return rule
    raise InputError(f"There is no rule {code}: pearl rule lists them.")


def _list(*, as_json: bool) -> None:
    from pearl.lint.rules import RULES

    ordered = sorted(RULES, key=lambda rule: rule.code)
    if as_json:
        emit_json([_summary(rule) for rule in ordered])
        return
    for rule in ordered:
        off = "" if rule.enabled else "  (off unless selected)"
        click.echo(f"{rule.code}  {rule.name:22} {rule.severity:8} {_first(rule)}{off}")


def _first(rule: Rule) -> str:
    return rule.doc.strip().splitlines()[0]


def _summary(rule: Rule) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": str(rule.severity),
        "enabled": rule.enabled,
        "summary": _first(rule),
    }
