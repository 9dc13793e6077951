"""What mkdocs.yml runs as the site is built: each rule gets a page, made of its docstring."""

from __future__ import annotations

import re
from textwrap import dedent

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from pearl.lint.rules import RULES
from pearl.lint.rules.base import Rule

CODE = {"Example", "Use instead"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, which no folder has."""
    for rule in RULES:
        files.append(File.generated(config, f"rules/{rule.code}.md", content=_page(rule)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead from a rule's row of rules.md to its page; GitHub alone wants pipes in code escaped."""
    if page.file.src_uri == "rules.md":
        markdown = re.sub(r"(?m)^\| (PRL\d+) \|", r"| [\1](rules/\1.md) |", markdown)
    return markdown.replace(r"\|", "|")


def _page(rule: Rule) -> str:
    first, *sections = re.split(r"\n\n(?=[A-Z][a-z ]+\n    )", rule.doc.strip())
    severity = f"{rule.severity}{'' if rule.enabled else ', off unless selected'}"
    parts = [f"# {rule.code} {rule.name}", f"*{severity}.* {first}"]
    for section in sections:
        title, _, body = section.partition("\n")
        text = dedent(body).strip("\n").replace("``", "`")
        parts.append(f"## {title}")
        parts.append(f"```text\n{dedent(body)}\n```" if title in CODE else text)
    return "\n\n".join([*parts, "[All rules](../rules.md)"])
