"""``pearl rule``"""

from __future__ import annotations

import click

from pearl.cli.options import emit_json, json_option


@click.command(
    "rule", short_help="Say what a rule means, with an example.",
    epilog="Example:  pearl rule PRL201",
)  # fmt: skip
@click.argument("code", default="")
@json_option
def command(code: str, as_json: bool) -> None:
    """Explain the rule CODE (PRL201, or its name); without CODE, list all rules."""
    from pearl.rules import RULES
    from pearl.source import InputError

    if not code:
        ordered = sorted(RULES, key=lambda rule: rule.code)
        if as_json:
            emit_json([_summary(rule) for rule in ordered])
            return
        for rule in ordered:
            off = "" if rule.enabled else "  (off unless selected)"
            click.echo(f"{rule.code}  {rule.name:22} {rule.severity:8} {_first(rule)}{off}")
        return
    found = next((rule for rule in RULES if code.upper() == rule.code or code == rule.name), None)
    if found is None:
        raise InputError(f"There is no rule {code}: pearl rule lists them.")
    if as_json:
        emit_json({**_summary(found), "documentation": found.doc.strip()})
        return
    off = "" if found.enabled else ", off unless selected"
    click.echo(click.style(f"{found.code} {found.name} ({found.severity}{off})\n", bold=True))
    click.echo(found.doc.strip())


def _first(rule) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return str(rule.doc.strip().splitlines()[0])


def _summary(rule) -> dict[str, object]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": str(rule.severity),
        "enabled": rule.enabled,
        "summary": _first(rule),
    }
