"""A user's own documents: PDF with its pages, Word, EPUB and HTML; and what cannot be read."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from time import monotonic, time
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

import pearl
from pearl.lang.ast import step_refs
from pearl.lang.errors import InputError, install_command
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import START, Source
from pearl.lang.values import Pairs
from pearl.prompts.calls import DOCUMENTS, WritePlan
from pearl.prompts.render import document_block, render
from pearl.retrieval import converters as documents
from pearl.retrieval import text_cache
from pearl.retrieval.converters import read_document, read_documents
from pearl.retrieval.retriever import DocumentRetriever
from pearl.retrieval.word_numbering import numbered
from pearl.runtime.evidence import evidence, evidence_key
from tests.growth import assert_linear
from tests.server import Serve
from tests.services import Services
from tests.shell import call, one_line

pytest_plugins = ["tests.browser"]

for module in ("pypdfium2", "mammoth", "markdownify", "lxml"):
    pytest.importorskip(module, reason="pearl[documents] is not installed")

QUESTION = "Why does Mara leave the lighthouse?"
LEASE = "The deposit is 1,900 pounds."


def pdf_of(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF with so many lines a page; an empty line leaves a gap, and a tab a wide one.

    What follows ``^`` stands a line higher, what follows ``_`` a line lower.
    """
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Times-Roman/Encoding/WinAnsiEncoding>>"
    bodies = [b"<</Type/Catalog/Pages 2 0 R>>", b"", font]
    for lines in pages:
        shown = b"".join(
            b"(" + line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
            .replace("\t", ")Tj 150 0 Td(").replace("^", ")Tj 0 13 Td(")
            .replace("_", ")Tj 0 -13 Td(").encode("cp1252")
            + b")Tj %d 0 Td T*\n" % (-150 * line.count("\t")) for line in lines
        )  # fmt: skip
        drawn = b"BT /F 11 Tf 13 TL 60 780 Td\n" + shown + b"ET"
        bodies.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 3 0 R>>>>"
            b"/Contents %d 0 R>>" % (len(bodies) + 2)
        )
        bodies.append(b"<</Length %d>>stream\n%b\nendstream" % (len(drawn), drawn))
    kids = b" ".join(b"%d 0 R" % number for number in range(4, len(bodies) + 1, 2))
    bodies[1] = b"<</Type/Pages/Kids[%b]/Count %d>>" % (kids, len(pages))
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(out))
        out += b"%d 0 obj%b endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(bodies) + 1
    return out + (
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
        % (size, table, size, len(out))
    )


def packed(files: dict[str, str]) -> bytes:
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as file:
        for name, text in files.items():
            file.writestr(name, text)
    return out.getvalue()


def docx_of(
    body: str, *, relations: str = "", before: str = "", numbering: str = "", styles: str = ""
) -> bytes:
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    main = f'<Relationship Id="r1" Type="{office}/officeDocument" Target="word/document.xml"/>'
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    parts = {"numbering": numbering, "styles": styles}
    return packed(
        {
            "_rels/.rels": f"{package}{main}</Relationships>",
            "word/_rels/document.xml.rels": f"{package}{relations}</Relationships>",
            "word/document.xml": f'{before}<w:document xmlns:w="{word}" xmlns:r="{office}">'
            f"<w:body>{body}</w:body></w:document>",
        }
        | {
            f"word/{name}.xml": f'<w:{name} xmlns:w="{word}">{part}</w:{name}>'
            for name, part in parts.items()
            if part
        }
    )


def paragraph(text: str, style: str = "") -> str:
    style = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{style}<w:r><w:rPr><w:b/></w:rPr><w:t>{text}</w:t></w:r></w:p>"


def level(at: int, form: str, text: str, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{more}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
    )


def item(text: str, number: int | None = None, at: int = 0, style: str = "", more: str = "") -> str:
    """A paragraph of a list."""
    style = f'<w:pStyle w:val="{style}"/>' if style else ""
    place = f'<w:ilvl w:val="{at}"/><w:numId w:val="{number}"/>' if number is not None else ""
    list_ = f"<w:numPr>{place}</w:numPr>" if place else ""
    return f"<w:p><w:pPr>{style}{list_}{more}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


CLAUSES = (
    level(0, "decimal", "%1.", '<w:pStyle w:val="Heading1"/>')
    + level(1, "decimal", "%1.%2", '<w:pStyle w:val="Clause"/>')
    + level(2, "lowerLetter", "(%3)")
    + level(3, "lowerRoman", "(%4)")
)
OTHERS = (
    level(0, "upperRoman", "Article %1")
    + level(1, "decimalZero", "%1.%2")
    + level(2, "decimal", "%1.%2.%3", "<w:isLgl/>")
)
NUMBERING = "".join(
    f'<w:abstractNum w:abstractNumId="{at}">{levels}</w:abstractNum>'
    for at, levels in enumerate(
        (
            CLAUSES,
            OTHERS,
            level(0, "bullet", "o"),
            level(0, "none", ""),
            '<w:numStyleLink w:val="Outline"/>',
        )
    )
) + "".join(
    f'<w:num w:numId="{number}"><w:abstractNumId w:val="{kind}"/>{more}</w:num>'
    for number, kind, more in (
        (1, 0, ""),
        (2, 1, ""),
        (3, 2, ""),
        (4, 3, ""),
        (5, 4, ""),
        (6, 0, '<w:lvlOverride w:ilvl="2"><w:startOverride w:val="27"/></w:lvlOverride>'),
    )
)
STYLES = (
    '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/><w:pPr><w:numPr>'
    '<w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Clause"><w:name w:val="Clause"/>'
    '<w:basedOn w:val="Heading1"/></w:style>'
    '<w:style w:type="numbering" w:styleId="Outline"><w:pPr><w:numPr><w:numId w:val="2"/></w:numPr>'
    "</w:pPr></w:style>"
)
GONE = "<w:rPr><w:del/></w:rPr>"
NUMBERED = [
    (item("Term", style="Heading1"), "# 1. Term"),
    (item("Five years.", style="Clause"), "1.1 Five years."),
    (item("From May;", 1, 2), "(a) From May;"),
    (item("from June.", 1, 2), "(b) from June."),
    (item("At noon.", 1, 3), "(i) At noon."),
    (item("No number.", 0, style="Clause"), "No number."),
    (item("Renewal.", style="Clause"), "1.2 Renewal."),
    (item("Once.", 1, 2), "(a) Once."),
    (item("Late.", 6, 2), "(aa) Late."),
    (item("Gone", 1, 2, more=GONE) + item("and here.", 1, 2), "(bb) Goneand here."),
    (item("Rent", style="Heading1"), "# 2. Rent"),
    (item("In euros.", style="Clause"), "2.1 In euros."),
    (item("Scope.", 2), "Article I Scope."),
    (item("Goods.", 5, 1), "I.01 Goods."),
    (item("Cars.", 2, 2), "1.1.1 Cars."),
    (item("Point.", 3), "* Point."),
    (item("Unnumbered.", 4), "Unnumbered."),
    (item("", 2) + item("Last.", 2), "Article III Last."),
    (
        f"<w:tbl><w:tr><w:tc>{item('Cell.', 2)}</w:tc></w:tr></w:tbl>",
        "| Article IV Cell. |\n| --- |",
    ),
]


def test_clauses_of_word_keep_their_automatic_numbers():
    body = "".join(part for part, _ in NUMBERED)
    Path("a.docx").write_bytes(docx_of(body, numbering=NUMBERING, styles=STYLES))
    assert read_document("a.docx").text == "\n\n".join(text for _, text in NUMBERED)


def list_of(*levels: str) -> str:
    """What Word's numbering part says of one list, number 1."""
    num = '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    return f'<w:abstractNum w:abstractNumId="0">{"".join(levels)}</w:abstractNum>{num}'


LIST = list_of(
    level(0, "decimal", "%1."),
    level(1, "decimal", "%1.%2", '<w:lvlRestart w:val="0"/>'),
    level(2, "lowerLetter", "(%3)", '<w:lvlRestart w:val="1"/>'),
)
MOVED = (
    '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr><w:rPr><w:moveFrom/>'
    "</w:rPr></w:pPr><w:moveFrom><w:r><w:t>Old.</w:t></w:r></w:moveFrom></w:p>"
)
DRAWN = (
    '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
    f"<mc:Choice>{item('Box.', 1)}</mc:Choice><mc:Fallback>{item('Box.', 1)}</mc:Fallback>"
    "</mc:AlternateContent>"
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (MOVED + item("Rent.", 1), "1. Rent."),
        (DRAWN + item("Rent.", 1), "1. Box.\n\n2. Rent."),
        (
            "".join(item("x", 1, at) for at in (0, 1, 2, 1, 2, 0, 1, 2)),
            "1. x\n\n1.1 x\n\n(a) x\n\n1.2 x\n\n(b) x\n\n2. x\n\n2.3 x\n\n(a) x",
        ),
    ],
    ids=("moved away", "drawn twice", "beginning anew"),
)
def test_a_paragraph_of_word_counts_where_word_counts_it(body: str, text: str):
    assert documents.docx(docx_of(body, numbering=LIST)) == text


def numbered_of(body: str, numbering: str, styles: str = "<w:style/>") -> str:
    """A Word file's main part, with its numbers."""
    with ZipFile(BytesIO(docx_of(body, numbering=numbering, styles=styles))) as parts:
        names = ("document", "numbering", "styles")
        return numbered(*(parts.read(f"word/{name}.xml") for name in names)).decode()


def test_a_text_of_word_may_be_longer_than_ten_million_characters():
    assert ">1. </w:t>" in numbered_of(item("x" * 10_000_001, 1), LIST)


def test_the_text_of_a_number_has_at_most_a_hundred_characters():
    text = numbered_of(item("x", 1), list_of(level(0, "decimal", "%1" * 50_000)))
    assert f">{'1' * 50} </w:t>" in text


def test_a_long_chain_of_styles_takes_linear_time():
    def chain(size: int) -> str:
        based = '<w:style w:styleId="{}"><w:basedOn w:val="{}"/></w:style>'
        return "".join(based.format(at, at + 1) for at in range(size))

    def count(styles: str) -> str:
        return numbered_of(item("x", 1, style="0") * styles.count("<w:style "), LIST, styles)

    assert_linear(count, chain, 150)


def test_a_damaged_part_of_word_that_is_not_read_costs_nothing():
    file = BytesIO(docx_of(paragraph(LEASE)))
    with ZipFile(file, "a") as parts:
        for name in ("word/embeddings/o.bin", "customXml/item1.xml"):
            parts.writestr(name, "QQQQQQQQ")
    Path("a.docx").write_bytes(file.getvalue().replace(b"QQQQQQQQ", b"RRRRRRRR"))
    assert read_document("a.docx").text == LEASE


def test_parts_of_word_are_found_whatever_their_names():
    body = f"{item('Five years.', style='Clause')}<w:p>{STRUCK}</w:p>"
    data = docx_of(body, numbering=NUMBERING, styles=STYLES)
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    listed = "".join(
        f'<Relationship Id="r{name}" Type="{office}/{name}" Target="{target}"/>'
        for name, target in (("numbering", "/word/numbering2.xml"), ("styles", "styles2.xml"))
    )
    with ZipFile(BytesIO(data)) as parts:
        texts = {name: parts.read(name).decode() for name in parts.namelist()}
    texts["word/_rels/document.xml.rels"] = texts["word/_rels/document.xml.rels"].replace(
        "</Relationships>", f"{listed}</Relationships>"
    )
    moved = {
        re.sub(r"(document|numbering|styles)\.xml", r"\g<1>2.xml", name): text.replace(
            "word/document.xml", "word/document2.xml"
        )
        for name, text in texts.items()
    }
    Path("a").write_bytes(packed(moved))
    shown = "The notice is ~~two~~ four ~~or six~~ weeks."
    assert read_document("a").text == f"1.1 Five years.\n\n{shown}"


STRUCK = "".join(
    f'<w:r><w:rPr>{form}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'
    for text, form in (
        ("The notice is ", ""),
        ("two", "<w:strike/>"),
        ("four ", '<w:strike w:val="0"/>'),
        ("or six", '<w:strike w:val="0"/><w:dstrike/>'),
        (" weeks.", ""),
    )
)
ROW = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("Rent", "950"))
WORD = docx_of(
    f"{paragraph('Lease', 'Heading1')}{paragraph(LEASE)}<w:tbl><w:tr>{ROW}</w:tr></w:tbl>"
)
EPUB = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": '<container><rootfile full-path="O/p.opf"/></container>',
    "O/p.opf": '<o:package><manifest><item id="b" href="b%20b.xhtml"/><item id="a" '
    'href="../a.xhtml"/></manifest><spine><itemref idref="a"/><o:itemref idref="b"/></spine>',
    "a.xhtml": "<html><head><title>T</title></head><body><h1>One</h1><p>Mara left.</p></body>",
    "O/b b.xhtml": "<?xml version='1.0' encoding='latin1'?><html><p>Tom stayed.</p></html>",
}
LOCKED = pdf_of([["x"]]).replace(
    b"/Root",
    b"/ID[(a)(a)]/Encrypt<</Filter/Standard/V 1/R 2/O(%b)/U(%b)/P -4>>/Root" % ((b"a" * 32,) * 2),
)
PAGE = f"<!-- saved --><HTML><head><style>p{{}}</style></head><h1>Lease</h1><p>{LEASE}</p>"
LISTS = "| A | B |\n| --- | --- |\n| 1 | 2 |\n\n* x\n* y"
DELETED = (
    "<h1><s>Old</s></h1><p>(<b><del>six</b></del><s> <strike>weeks</strike></s><i>three</i> "
    "in <del>May</del>.)</p><del><p>A<p>B</del>"
)
MARKED = "# ~~Old~~\n\n(~~six~~ ~~weeks~~ three in ~~May~~.)\n\n~~A~~\n\n~~B~~"
DELETED_BLOCKS = (
    "<del>so <b>it</b> is<h2>Old</h2><!-- c --><table> <tr><th>A<td>B<tr><td>1<td></table>"
    "<div>of <i>two</i><ol start=2><li>a<li>b<p>c<br>d</ol></div></del><ul><s><li>e</s></ul>"
)
STRUCK_BLOCKS = (
    "~~so it is~~\n\n## ~~Old~~\n\n| ~~A~~ | ~~B~~ |\n| --- | --- |\n| ~~1~~ |  |\n\n~~of two~~"
    "\n\n2. ~~a~~\n3. ~~b~~\n\n   ~~c~~  \n   ~~d~~\n\n* ~~e~~"
)
INSIDE = "<p>1<s>0</s>0 col<del>u</del>r <ins>four</ins><del>three</del>, a<s>b c</s>d"
OL = (
    "<ol type=a start=3><li>x<ol type=a start=4><li>y<li type=i value=2>z</ol></ol>"
    "<p><ol reversed start=9><li>p<li>q<li value=2>r</ol>"
)
FORGED = "<ul><li number='9'>x<li number='7. No rent&#10;# Rent'>y</ul>"
ENTITIES = "".join(f"<!ENTITY a{n + 1} '{f'&a{n};' * 100}'>" for n in range(7))
DOCTYPE = f"<!DOCTYPE d [<!ENTITY file SYSTEM 'secret.txt'><!ENTITY a0 'ha'>{ENTITIES}]>"


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.docx", WORD, f"# Lease\n\n{LEASE}\n\n| Rent | 950 |\n| --- | --- |"),
        ("a.epub", packed(EPUB), "# One\n\nMara left.\n\nTom stayed."),
        ("page", PAGE.encode(), f"# Lease\n\n{LEASE}"),
        ("a.htm", b"<meta charset=utf-16le><p>Caf\xc3\xa9", "Café"),
        ("a.htm", b"<meta charset=unicode_escape><p>C:\\x41 caf\xc3\xa9", "C:\\x41 café"),
        ("a.htm", b"<meta charset=none><ol start='\xc2\xb2'><li>Caf\xc3\xa9</ol>", "1. Café"),
        ("a.htm", b"<meta charset=tis-620><p>\xca\xc7\xd1\xca\xb4\xd5", "สวัสดี"),
        ("a.htm", b"<meta charset=latin1><p>Caf\xe9 \x80<script>x()</script>", "Café €"),
        ("a.html", b"<table><tr><th>A<td>B<tr><td>1<td>2</table><ul><li>x<li>y</ul>", LISTS),
        ("a.docx", docx_of(f"<w:p>{STRUCK}</w:p>"), "The notice is ~~two~~ four ~~or six~~ weeks."),
        (
            "a.html",
            DELETED.encode(),
            "# ~~Old~~\n\n(~~six~~ ~~weeks~~ three in ~~May~~.)\n\n~~A~~\n\n~~B~~",
        ),
        ("a.html", DELETED_BLOCKS.encode(), STRUCK_BLOCKS),
        ("a.html", INSIDE.encode(), "1~~0~~0 col~~u~~r four ~~three~~, a ~~b c~~ d"),
        ("a.html", OL.encode(), "c. x\n   d. y\n   ii. z\n\n9. p\n8. q\n2. r"),
        ("a.html", FORGED.encode(), "* x\n* y"),
        ("a.md", f"# Lease\n\n**{LEASE}**".encode(), f"# Lease\n\n**{LEASE}**"),
        ("a.txt", LEASE.encode("utf-16"), LEASE),
        ("a.txt", f"\ufeff{LEASE}".encode("utf-32-le"), LEASE),
        ("a.txt", f"\ufeff{LEASE}".encode("utf-32-be"), LEASE),
    ],
    ids=(
        "word",
        "epub",
        "html",
        "not utf-16",
        "no page's",
        "figure",
        "thai",
        "latin",
        "unclosed",
        "struck in word",
        "struck",
        "struck blocks",
        "struck in a word",
        "numbers",
        "a page's own numbers",
        "markdown",
        "utf-16",
        "utf-32-le",
        "utf-32-be",
    ),
)
def test_a_document_is_read_as_text(name: str, data: bytes, text: str):
    Path(name).write_bytes(data)
    assert read_document(name).text == text


def test_cells_of_a_pdf_s_tables_are_kept_apart():
    rows = ["Item\t2034\t2035", "Rent of the hall\t1 200\t900", "Heating\t\t12 500", "\t7\t8"]
    # The gap is not wide: the other rows tell that it parts two cells.
    rows.append("Power\tLight and heat of the hall, 2 035\t9")
    wide = "Heating and light of the hall and the rooms"
    text = documents.pdf(pdf_of([[*rows, f"{wide}\t\t9", "", "Two  words, and  12 500 crowns."]]))
    assert [*filter(None, text.replace("\f", "").split("\n"))] == [
        *rows, f"{wide}\t9", "Two words, and 12 500 crowns.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        # Its last cell alone; a cell of two lines beside centred ones, or ones that begin at its
        # top; and no table, but the columns of a page below its head.
        (["A\tB\tC", "1\t\t3", "\t2\t"], "A\tB\tC\n1\t\t3\n\t2"),
        (
            ["A\tB\tC", "", "x\t^of two__lines^\t7", "", "y\t\t4"],
            "A\tB\tC\nx\tof two lines\t7\ny\t\t4",
        ),
        (["A\tB\tC", "x\tof two_lines\t^7", "", "y\t\t4"], "A\tB\tC\nx\tof two lines\t7\ny\t\t4"),
        (
            ["A\tB", f"{'_'.join(['left'] * 12)}\t{11 * '^'}{'_'.join(['right'] * 12)}"],
            "\n".join(["A\tB", *["left"] * 12, *["right"] * 12]),
        ),
    ],
    ids=("one cell", "centred", "top", "columns"),
)
def test_a_row_of_a_pdf_s_table_keeps_its_cells_together(lines: list[str], text: str):
    assert documents.pdf(pdf_of([lines])).strip("\n\f") == text


def test_a_line_of_many_cells_takes_linear_time():
    def read(line: str) -> None:
        assert documents.pdf(pdf_of([[line, line]])).count("x") == 2 * line.count("x")

    assert_linear(read, lambda size: "x\t" * size, 150)


def test_a_page_of_instructions_that_do_not_end_takes_linear_time():
    assert documents.html(b"<p>Seen</p><?php Hidden").strip() == "Seen"
    assert_linear(lambda page: documents.html(page.encode()), lambda size: "<?" * size, 3_000)


def test_an_empty_cell_is_seen_where_a_table_is_quoted():
    rows = ["Year\tVehicles a day\tClosures", "2022\t4 310\t3", "2023\t\t7", "2024\t5 022"]
    Path("t.pdf").write_bytes(pdf_of([rows]))
    asked = "ask", "t.pdf", "How many vehicles a day in 2023?", "--model", "offline"
    assert "page 1: 2023 |  | 7\n" in call(*asked).out
    assert "2023\t\t7" in call(*asked, "--json").json["words"].splitlines()
    assert call("runs", "show", "last", "--html", "t.html").code == 0
    page = Path("t.html").read_text(encoding="utf-8")
    assert "<blockquote>2023 |  | 7</blockquote>" in page
    assert "\n2023\t\t7</div>" in page


def test_lines_of_a_pdf_become_paragraphs_over_pages_too():
    first = ["A paragraph that has", "five lines, of which the", "third goes mainte-"]
    first += ["nance and then", "ends."]
    pages = [[*first, "", "Another (para\\graph) runs", "over the"], [], ["page’s end."]]
    Path("made.pdf").write_bytes(pdf_of(pages))
    assert read_document("made.pdf").text.replace("\n\n", "¶").replace("\n", " ") == (
        "A paragraph that has five lines, of which the third goes maintenance and then ends.¶"
        "Another (para\\graph) runs over the¶\f \fpage’s end.¶\f"
    )


@pytest.mark.parametrize(
    ("last", "following", "between"),
    [
        ("won a prize in", "Bergen.", "\n"),
        ("won a prize in", "Bergen. All of_Oslo was glad.", "\n"),
        ("won many prizes.", "All of_Oslo was glad.", "\n\n"),
        ("won a prize in", "News of Oslo", "\n\n"),
        ("The prize", "All of_Oslo was glad.", "\n\n"),
        ("\t\t 12", "Bergen.", "\n\n"),
        ("2. Won a prize in", "3. Bergen._4. Oslo.", "\n\n"),
    ],
    ids=("sentence", "lines", "ended", "heading below", "heading above", "number", "list"),
)
def test_a_sentence_goes_on_over_the_end_of_a_column_or_page(
    last: str, following: str, between: str
):
    column = ["The choir sang in", "Oslo last May and"]
    lines = following.split("_")
    below = "\n".join(lines)
    pages = documents.pdf(pdf_of([[*column, last], lines]))
    assert pages.endswith(f"{last.split()[-1]}{between}\f{below}\n\n\f")
    if "\t" not in last:
        columns = documents.pdf(pdf_of([[f"{'_'.join([*column, last])}\t^^{following}"]]))
        assert columns.endswith(f"{last}{between}{below}\n\n\f")


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("scan.pdf", pdf_of([[], []]), "scan.pdf has no text, only pictures: have their text"),
        ("cut.pdf", pdf_of([["x"]])[:90], "error)): save it anew, or as text."),
        ("locked.pdf", LOCKED, "locked.pdf has a password: save it without one."),
        (
            "lost.epub",
            packed({"META-INF/container.xml": "<rootfile full-path='my password'/>"}),
            "lost.epub cannot be read as an EPUB (\"There is no item named 'my password' in the",
        ),
        ("a.xlsx", packed({"xl/workbook.xml": ""}), "a.xlsx is a spreadsheet, and no text: save"),
        ("a.ods", packed({"opendocument.spreadsheet": ""}), "as CSV, in UTF-8, first."),
        ("cut.docx", WORD[:-99], "cut.docx cannot be read as a Word file (it is damaged): save it"),
        ("odd.epub", WORD[:30], "odd.epub cannot be read as an EPUB (it is damaged): save it"),
        ("laughs.docx", docx_of("&a7;", before=DOCTYPE), "laughs.docx cannot be read as a Word"),
        ("file.docx", docx_of(paragraph("&file;"), before=DOCTYPE), "file.docx "),
        ("deep.html", b"<html>" + b"<b>" * 9_000, "deep.html cannot be read as a page of HTML"),
        (
            "bare.epub",
            packed({"META-INF/container.xml": ""}),
            "bare.epub cannot be read as an EPUB",
        ),
        ("no.html", b"<html><p>caf\xe9", "no.html cannot be read as a page of HTML ('utf-8' codec"),
        ("plain.txt", b"caf\xe9", "iconv -f WINDOWS-1252 -t UTF-8"),
    ],
    ids=lambda one: one if isinstance(one, str) and "." in one[:9] else "",
)
def test_what_cannot_be_read_is_said_in_a_line(name: str, data: bytes, told: str):
    Path("secret.txt").write_text("the secret", encoding="utf-8")
    Path(name).write_bytes(data)
    line = one_line(call("ask", name, "Why?"), 2)
    assert told in line
    assert "the secret" not in line


def test_a_page_does_not_become_a_text_many_times_its_size(monkeypatch: pytest.MonkeyPatch):
    page = b"<table>" + b"<tr><td colspan=1000>x<td colspan='\xc2\xb2'>y<td colspan=2>z" * 5_000
    Path("a.html").write_bytes(page)
    text = read_document("a.html").text
    assert text.endswith(f"| x{' |' * 99} y | z | |")
    assert len(text) < 10 * len(page)
    monkeypatch.setattr(documents, "LARGEST", 1_000_000)
    with pytest.raises(ValueError, match=r"^its text has 1,0\d\d,\d{3} characters, and 1,000,000"):
        documents._text(documents._KINDS["html"], page)


def test_every_document_that_cannot_be_read_is_named():
    Path("in").mkdir()
    for name, data in {"a.txt": b"ett\xe9", "b.txt": b"Fine.", "c.pdf": b"%PDF-1.4 x"}.items():
        Path("in", name).write_bytes(data)
    done = call("ask", "in", "none.md", QUESTION)
    assert (done.code, done.out) == (2, "")
    assert [one.split()[1] for one in done.told] == ["in/a.txt", "in/c.pdf", "none.md"]


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of the texts of converted files, which is empty, and which others may write to."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "pearl" / "documents"
    folder.mkdir(parents=True, mode=0o777)
    yield folder
    documents._version.cache_clear()


def test_a_file_is_converted_once_whatever_its_name(cache: Path, monkeypatch: pytest.MonkeyPatch):
    Path("a.docx").write_bytes(WORD)
    text = read_document("a.docx").text
    assert [file.read_text(encoding="utf-8") for file in cache.iterdir()] == [text]
    assert cache.stat().st_mode & 0o077 == 0
    Path("a.docx").rename("b.docx")
    # No conversion takes less time.
    assert read_document("b.docx", seconds=0).text == text
    for wrong in (paragraph("another text"), paragraph("another") * 2):
        Path("b.docx").write_bytes(docx_of(wrong))
        with pytest.raises(InputError, match="took longer than 0 seconds"):
            read_document("b.docx", seconds=0)
    Path("a.docx").write_bytes(WORD)
    # As where the file is read by another version of the library that converts it.
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.1")
    documents._version.cache_clear()
    with pytest.raises(InputError, match="took longer than 0 seconds"):
        read_document("a.docx", seconds=0)


@pytest.mark.usefixtures("cache")
def test_a_batch_converts_each_document_once_and_counts_the_rows_of_a_bad_one(
    monkeypatch: pytest.MonkeyPatch,
):
    rows = [{"id": at, "question": QUESTION, "document": f"{at % 2}.docx"} for at in range(5)]
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for at in range(2):
        Path(f"{at}.docx").write_bytes(docx_of(paragraph(f"Mara leaves lighthouse {at}.")))
    assert call("estimate", "q.jsonl", "--model", "offline").code == 0
    # From here on nothing can be converted.
    monkeypatch.setattr(documents, "find_spec", lambda _: None)
    done = call("batch", "q.jsonl", "-o", "a.jsonl", "--model", "offline")
    assert done.code == 0
    assert "5 of 5" in done.err
    Path("1.docx").write_bytes(WORD)
    refused = call("batch", "q.jsonl", "-o", "a.jsonl", "--model", "offline")
    assert refused.code == 2
    assert len(refused.told) == 1
    assert refused.told[0].startswith("pearl: q.jsonl:2 and 1 more row: 1.docx is a Word file")


def test_texts_that_nobody_reads_for_a_month_leave_the_cache_and_the_oldest_of_too_many(
    cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(text_cache, "LARGEST", 20)
    for at, name in enumerate((b"unread", b"first", b"second", b"third")):
        text_cache.write(b"1", name, b"7 bytes")
        os.utime(text_cache._place(b"1", name), (time() - (text_cache.UNUSED, 30, 20, 10)[at],) * 2)
    (cache / "a folder").mkdir()
    (cache / "a link").symlink_to("nowhere")
    assert text_cache.read(b"1", b"first") == "7 bytes"
    # One of these begins with the digit at which the cache is gone through.
    for _ in range(400):
        last = b"%d" % len([*cache.iterdir()])
        text_cache.write(b"1", last, b"")
        if text_cache._place(b"1", last).name.startswith("0"):
            break
    names = (b"unread", b"first", b"second", b"third")
    held = [name for name in names if text_cache.read(b"1", name)]
    assert held == [b"first", b"third"]


@pytest.mark.usefixtures("cache")
def test_a_text_in_a_folder_that_others_may_write_to_is_not_believed(cache: Path):
    text_cache.write(b"1", b"a", b"mine")
    assert text_cache.read(b"1", b"a") == "mine"
    cache.chmod(0o777)
    assert text_cache.read(b"1", b"a") is None
    text_cache.write(b"1", b"a", b"mine again")
    assert text_cache.read(b"1", b"a") == "mine again"


def test_many_write_to_the_cache_at_once_and_nothing_is_lost(cache: Path):
    def write(at: int) -> None:
        text_cache.write(b"1", b"%d" % at, b"text %d" % at)

    with ThreadPoolExecutor(8) as pool:
        [*pool.map(write, range(400))]
    assert [text_cache.read(b"1", b"%d" % at) for at in range(400)] == [
        f"text {at}" for at in range(400)
    ]
    assert len([*cache.iterdir()]) == 400


@pytest.mark.parametrize("harm", ["a file", "not UTF-8", "no home", "no version"])
def test_a_cache_that_cannot_be_used_keeps_no_document_from_being_read(
    cache: Path, monkeypatch: pytest.MonkeyPatch, harm: str
):
    Path("a.docx").write_bytes(WORD)
    text = read_document("a.docx").text
    if harm == "a file":
        shutil.rmtree(cache)
        cache.write_bytes(b"")
    elif harm == "not UTF-8":
        next(cache.iterdir()).write_bytes(b"\xff")
    elif harm == "no version":
        monkeypatch.setattr("importlib.metadata.version", not_installed)
        documents._version.cache_clear()
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", no_home)
    assert read_document("a.docx").text == text


def not_installed(name: str) -> str:
    raise PackageNotFoundError(name)


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.usefixtures("cache")
def test_no_file_is_read_for_longer_or_larger_than_the_limits(monkeypatch: pytest.MonkeyPatch):
    Path("a.docx").write_bytes(WORD)
    with pytest.raises(InputError, match=r"a\.docx took longer than 0 seconds to read as a Word"):
        read_document("a.docx", seconds=0)
    monkeypatch.setattr(documents, "LARGEST", 10)
    with pytest.raises(InputError, match=r"a\.docx has [\d,]+ bytes, and 10 are read: split it"):
        read_document("a.docx")
    monkeypatch.setattr(documents, "_PACKED", 10)
    for convert in (documents.docx, documents.epub):
        with pytest.raises(ValueError, match="too much is packed in it"):
            convert(WORD)


@pytest.mark.parametrize(
    "work",
    [
        lambda: pearl.ask("long.docx", QUESTION, model="offline"),
        lambda: pearl.Pearl(model="offline").batch("q.jsonl"),
    ],
    ids=("ask", "batch"),
)
@pytest.mark.usefixtures("cache")
def test_what_else_runs_goes_on_while_a_document_is_converted_which_ends_with_the_call(
    work: Callable[[], Awaitable[Any]],
):
    Path("long.docx").write_bytes(docx_of(paragraph("word") * 200_000))
    row = {"id": "a", "question": QUESTION, "document": "long.docx"}
    Path("q.jsonl").write_text(json.dumps(row), encoding="utf-8")

    async def ask() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work(), 1)

    began = monotonic()
    # The loop's end waits for its threads.
    asyncio.run(ask())
    # All of it takes longer by far.
    assert monotonic() - began < 15
    of_ours = ["pgrep", "--full", "--parent", str(os.getpid()), documents.__name__]
    assert subprocess.run(of_ours, capture_output=True).returncode == 1


@pytest.mark.usefixtures("cache")
def test_a_conversion_that_finds_no_room_says_so(monkeypatch: pytest.MonkeyPatch):
    Path("a.html").write_text("<p>Ada built it.", encoding="utf-8")
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", "/no/such/folder")
    with pytest.raises(InputError, match=r"^a\.html cannot be converted \(No such .*TMPDIR\.$"):
        read_document("a.html")


@pytest.mark.usefixtures("cache")
def test_where_nothing_converts_a_file_the_message_names_the_command(
    monkeypatch: pytest.MonkeyPatch,
):
    Path("a.docx").write_bytes(WORD)
    monkeypatch.setattr(documents, "find_spec", lambda _: None)
    told = f"a.docx is a Word file: {install_command('documents')} to read it."
    assert told in one_line(call("ask", "a.docx", "Why?"), 2)


def test_no_document_reaches_another_machine():
    with Services({}) as server:
        picture = (
            '<w:p><w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml">'
            '<v:imagedata r:id="p"/></v:shape></w:pict></w:r></w:p>'
        )
        image = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/image"
        related = (
            f'<Relationship Id="p" Type="{image}" TargetMode="External" Target="{server.url}/p"/>'
        )
        head = f"<!DOCTYPE html SYSTEM '{server.url}/d'><link rel=stylesheet href='{server.url}/s'>"
        Path("a.docx").write_bytes(docx_of(paragraph(LEASE) + picture, relations=related))
        Path("a.html").write_text(f"{head}<img src='{server.url}/i'><p>{LEASE}", encoding="utf-8")
        assert read_document("a.docx").text == read_document("a.html").text == LEASE
        assert not server.came
        with pytest.raises(PermissionError, match="a document asked for socket"):
            documents._refuse("socket.connect", ())


@pytest.fixture
def thirty_pages(examples: Path) -> Path:
    """The example documents as a PDF of thirty pages."""
    names = ("harbour", "lighthouse", "timekeeping")
    text = "\n\n".join((examples / f"{name}.txt").read_text(encoding="utf-8") for name in names)
    lines = [line for one in text.split("\n\n") for line in (*wrap(" ".join(one.split()), 95), "")]
    size = -(-len(lines) // 30)
    path = Path("book.pdf")
    path.write_bytes(pdf_of([lines[at : at + size] for at in range(0, len(lines), size)]))
    return path


def test_evidence_of_a_pdf_says_the_page(
    thirty_pages: Path, in_chromium: Callable[[Callable[[Any], None]], None]
):
    source = read_document(str(thirty_pages))
    pages = source.text.split("\f")
    assert len(pages) == 31
    quotes = call("ask", thirty_pages, QUESTION, "--json").json["evidence"]
    assert len({quote["page"] for quote in quotes}) > 1
    for quote in quotes:
        assert " ".join(quote["text"].split()) in " ".join(pages[quote["page"] - 1].split())
    asked = call("ask", "-", QUESTION, stdin=thirty_pages.read_bytes())
    assert f"page {quotes[0]['page']}: {' '.join(quotes[0]['text'].split())}" in asked.out
    row = {"id": "a", "question": QUESTION, "document": thirty_pages.name}
    Path("q.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert call("estimate", "q.jsonl").code == call("batch", "q.jsonl", "-o", "a.jsonl").code == 0
    assert json.loads(Path("a.jsonl").read_text(encoding="utf-8"))["evidence"] == quotes
    assert call("runs", "show", "last/a", "--html", "run.html").code == 0

    def look(browser: Any) -> None:
        page = browser.new_page()
        page.goto(Path("run.html").absolute().as_uri())
        shown = page.locator(".document .page").all_inner_texts()
        assert shown == [f"page {number}" for number in range(1, 31)]
        link = page.locator(".quotes .where a").first
        assert link.inner_text().startswith(f"page {quotes[0]['page']}")
        link.click()
        assert page.locator(".back:target").is_visible()
        page.close()

    in_chromium(look)


def test_evidence_of_several_documents_says_which(
    in_chromium: Callable[[Callable[[Any], None]], None],
):
    folder = Path("papers")
    (folder / "more" / ".git").mkdir(parents=True)
    first = ["The lease begins in May.", "", LEASE]
    (folder / "lease.pdf").write_bytes(pdf_of([["Nothing", "of note."], first]))
    letter = "# Letter\n\nThe deposit was paid back in \x1c# lease.pdf March.\n"
    (folder / "more" / "letter.md").write_text(letter, encoding="utf-8")
    (folder / "more" / ".git" / "x.md").write_text("The deposit was stolen.", encoding="utf-8")
    (folder / "notes.cfg").write_text("deposit", encoding="utf-8")
    # What Word keeps beside a document that is open.
    (folder / "~$lease.docx").write_bytes(b"\x05Anna \0\0 A\0n\0")
    files = ["papers/lease.pdf", "papers/more/letter.md"]
    source = read_documents(files)
    assert read_documents(["papers"]).text == source.text
    places = [(LEASE, ("lease.pdf", 2, 6)), ("The deposit was", ("more/letter.md", None, 3))]
    for words, place in places:
        assert source.cited(source.text.index(words)) == place
    asked = "What is said of the deposit?"
    found = call("ask", *files, asked, "--json").json["evidence"]
    assert {(one["document"], one["page"]) for one in found} == {place[:2] for _, place in places}
    answer = pearl.ask_sync(files, asked, model="offline")
    assert {str(quote.place) for quote in answer.evidence} == {
        "lease.pdf, page 2", "more/letter.md, line 3"
    }  # fmt: skip
    over = call("ask", "papers", asked)
    passed_over = "Passed over, as no document ends so: papers/notes.cfg. To read one"
    assert passed_over in over.err
    assert passed_over in call("index", "papers", "-o", "papers.index").err
    told = over.out
    assert f"lease.pdf, page 2: {LEASE}\nmore/letter.md, line 3: The deposit was paid" in told
    rows = [{"id": "a", "question": asked, "documents": ["lease.pdf", "more/letter.md"]}]
    rows.append({"id": "b", "question": asked, "document": "../papers"})
    Path("papers/q.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert call("batch", "papers/q.jsonl", "-o", "a.jsonl").code == 0
    for line in Path("a.jsonl").read_text(encoding="utf-8").splitlines():
        assert json.loads(line)["evidence"] == found

    for item in "ab":
        assert call("runs", "show", f"last/{item}", "--html", f"{item}.html").code == 0

    def look(browser: Any) -> None:
        page = browser.new_page()
        for item in "ab":
            page.goto(Path(f"{item}.html").absolute().as_uri())
            shown = page.locator(".document .text").inner_text()
            assert "# lease.pdf\n\nNothing" in shown
            assert "page 2\n\n\n# more/letter.md" in shown
            assert "�" not in shown
            assert "more/letter.md, line 3" in page.locator(".quotes").first.inner_text()
        page.close()

    in_chromium(look)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"documents": "a.txt"}, "documents is to be a list of paths"),
        ({"documents": ["a.txt"], "document": "a.txt"}, "has a document and documents"),
        ({"documents": ["a.txt", "../b.txt"]}, "b.txt is not in"),
        ({"documents": ["a.txt", "c.txt"]}, "c.txt does not exist"),
    ],
    ids=("text", "both", "outside", "missing"),
)
def test_documents_of_a_row_that_cannot_be_used(row: dict[str, Any], told: str):
    Path("a.txt").write_text("Words.", encoding="utf-8")
    Path("q.jsonl").write_text(json.dumps({"id": "a", "question": "Why?"} | row), encoding="utf-8")
    assert told in one_line(call("batch", "q.jsonl", "-o", "out.jsonl"), 2)


@pytest.fixture
def two() -> tuple[str, str]:
    Path("lease.txt").write_text(f"{LEASE}\n", encoding="utf-8")
    Path("a.letter.md").write_text("# Letter\n\nThe deposit was paid back.\n", encoding="utf-8")
    return "lease.txt", "a.letter.md"


PAID = "The deposit was paid back."
NAMED = "CTX.a.letter.md"
READS_ONE = f'1. a = FIND_EVENT("{NAMED}", "the deposit") : Find what became of it\n'
EACH = """\
1. docs = DOCUMENTS(CTX) : List the documents
2. deposits = FIND_EVENT(each docs, "the deposit") : What each says of it
"""


@pytest.mark.parametrize(
    ("plan", "answer"),
    [
        (EACH, [f"lease.txt: {LEASE}", f"a.letter.md: {PAID}"]),
        ('a = FIND_EVENT("CTX.a.letter", "the deposit")', [PAID]),
        ('a = FIND_EVENT("CTX.a.letter.md", "the deposit")', [PAID]),
        ('a = FIND_EVENT(CTX, "the deposit")', [LEASE, PAID]),
    ],
    ids=("each", "name", "ending", "all"),
)
def test_a_plan_names_its_documents(plan: str, answer: list[str], two: tuple[str, str]):
    Path("a.plan").write_text(plan, encoding="utf-8")
    assert call("lint", "a.plan").code == 0
    told = call("run", "a.plan", *two, "--json").json
    lines = [line.removeprefix("> ") for line in told["answer"].splitlines()]
    assert sorted(lines) == sorted(answer)
    quotes = pearl.Pearl(model="offline").run_sync(plan, two).evidence
    for quote, shown in zip(quotes, told["evidence"], strict=True):
        assert all(getattr(quote, key) == shown[key] for key in ("document", "page", "line"))
    assert {one["document"] for one in told["evidence"]} == {
        file for file in two for line in lines if line.endswith(PAID) == (file == "a.letter.md")
    }


def test_a_quote_stands_in_the_document_that_its_step_read(two: tuple[str, str]):
    Path(two[0]).write_text(PAID, encoding="utf-8")
    for name in two:
        plan = f'a = FIND_EVENT("CTX.{name}", "the deposit")'
        found = call("run", "-", *two, "--json", stdin=plan).json["evidence"]
        assert [one["document"] for one in found] == [name]
        assert call("runs", "show", "last", "--html", "run.html").code == 0
        assert f"{name}, line" in Path("run.html").read_text(encoding="utf-8")


BOTH = "Neither party is liable for the deposit."


@pytest.mark.parametrize(
    "plan",
    [
        EACH,
        f'a = FIND_EVENT("CTX.lease.txt", "the deposit")\nb = FIND_EVENT("{NAMED}", "the deposit")',
    ],
    ids=("each", "names"),
)
def test_a_sentence_that_two_documents_have_is_evidence_from_both(plan: str, two: tuple[str, str]):
    for name in two:
        Path(name).write_text(f"{BOTH}\n", encoding="utf-8")
    found = call("run", "-", *two, "--json", stdin=plan).json["evidence"]
    assert [(one["document"], one["text"]) for one in found] == [(name, BOTH) for name in two]
    # A step that reads both at once quotes what stands there first.
    whole = call("run", "-", *two, "--json", stdin='a = FIND_EVENT(CTX, "the deposit")').json
    assert [one["document"] for one in whole["evidence"]] == [two[0]]


def test_a_function_that_copies_is_evidence_from_the_document_that_it_was_given():
    sources = {"lease.txt": f"{BOTH}\nIn Ulm.\n", "supply.txt": f"{BOTH}\nIn Kiel.\n"}
    for name, text in sources.items():
        Path(name).write_text(text, encoding="utf-8")

    @pearl.action(traits=["verbatim"])
    def pick(document: str) -> str:
        """Copy the sentence on the deposit."""
        return BOTH if "Ulm" in document else ""

    plan = "docs = DOCUMENTS(CTX)\na = PICK(each docs) : x\nb = COUNT(evidence a) : how many"
    options: dict[str, Any] = {"model": "offline", "library": ["core", pick]}
    answer = pearl.run_sync(plan + "\nreturn a, b", [*sources], **options)
    assert [quote.document for quote in answer.evidence] == ["lease.txt"]
    assert answer.text.endswith("1")


def test_a_sentence_that_two_calls_quote_is_one_of_a_steps_quotations(
    two: tuple[str, str], serve: Serve
):
    for name in two:
        Path(name).write_text(f"{BOTH}\n", encoding="utf-8")
    serve(lambda _: f"Shared.\n> {BOTH}")
    plan = f"{EACH}3. count = COUNT(evidence deposits) : How many\n"
    assert call("run", "-", *two, "--json", "--model", "m", stdin=plan).json["answer"] == "1"


def test_quotations_of_one_document_are_looked_for_in_linear_time():
    two = {"a.txt": "", "b.txt": "Other text.\n"}
    plan = parse("d = DOCUMENTS(CTX)\nx = FIND_ALL(each d, 'it') : x").plan

    def looked_for(text: str) -> None:
        source = Source("two", f"{START}# a.txt\n\n{text}\n\n{START}# b.txt\n\nOther text.\n")
        quotes = tuple(("CTX.a.txt", " ".join(line.split())) for line in text.splitlines()[::20])
        pairs = Pairs(tuple((f"CTX.{name}", "y") for name in two))
        found = evidence(plan, {"x": pairs, evidence_key("x"): Pairs(quotes)}, ["x"], source)
        assert {quote.document for quote in found} == {"a.txt"}

    # No quotation stands there as it is written, so that the words of the document are indexed.
    lines = "Sentence {0} of the  lease says {0}.\n"
    assert_linear(looked_for, lambda size: "".join(map(lines.format, range(size))), 300)


def test_a_sentence_is_evidence_from_the_document_that_the_quoting_call_read(
    two: tuple[str, str], serve: Serve
):
    """As the answer has it, and later the run's page, its trace and a replay of that."""
    for name in two:
        Path(name).write_text(f"{BOTH}\n", encoding="utf-8")
    serve(lambda body: f"Shared.\n> {BOTH}" if "# a.letter.md" in str(body) else "None.")
    told = call("run", "-", *two, "--json", "--model", "m", stdin=EACH).json["evidence"]
    assert [(one["document"], one["line"]) for one in told] == [("a.letter.md", 1)]
    steps = "".join(f"    {line}\n" for line in EACH.splitlines())
    Path("terms.actions").write_text(f"TERMS(CTX) : The terms of CTX\n  plan:\n{steps}")
    libraries = ("--library", "core", "--library", "quality", "--library", "terms.actions")
    inside = ("run", "-", *two, "--json", "--model", "m", *libraries)
    assert call(*inside, stdin="a = TERMS(CTX)").json["evidence"] == [told[0] | {"step": "a"}]
    assert call("run", "-", *two, "--model", "m", stdin=EACH).code == 0
    trace = call("trace", "last").out
    assert f'# evidence deposits = {{"pairs":[["{NAMED}","{BOTH}"]]}}' in trace
    # Earlier versions wrote labels into answers.
    for answer in ("a.letter.md: ", "CTX.a.letter.md: "):
        told = call("replay", "-", stdin=trace.replace("a.letter.md: ", answer))
        assert "1 with exactly the recorded answer" in told.out
    assert call("runs", "show", "last", "--html", "run.html").code == 0
    page = Path("run.html").read_text(encoding="utf-8")
    assert ("a.letter.md, line 1" in page, "lease.txt, line" in page) == (True, False)


def test_a_few_words_are_evidence_from_the_first_document_that_has_them(two: tuple[str, str]):
    Path(two[0]).write_text("The term ends after 30 days.\n", encoding="utf-8")
    Path(two[1]).write_text("Interest accrues after 30 days.\n", encoding="utf-8")
    plan, document = parse(EACH).plan, read_documents(two)
    [step] = [step.name for step in plan.steps if any(ref.maps for ref in step_refs(step))]
    answers = tuple((f"CTX.{name}", "30 days") for name in two)
    values: dict[str, Any] = {step: Pairs(answers), evidence_key(step): ["30 days"]}
    assert [one.document for one in evidence(plan, values, [step], document)] == [two[0]]
    values[evidence_key(step)] = ["after 30 days"]
    assert [one.document for one in evidence(plan, values, [step], document)] == [*two]


def test_the_mark_between_documents_is_in_no_prompt(two: tuple[str, str]):
    block = document_block(read_documents(two))
    assert block.count("# lease.txt") == block.count("# a.letter.md") == 1
    assert START not in block


def test_a_passage_of_each_document_has_its_name_as_title(two: tuple[str, str]):
    found = DocumentRetriever(read_documents(two)).search("deposit", 9)
    assert {(one.title, one.text) for one in found} == {
        ("lease.txt", LEASE),
        ("a.letter.md / Letter", PAID),
    }


def test_a_document_that_a_plan_names_and_is_not_there(two: tuple[str, str]):
    will = 'a = FIND_EVENT("CTX.will", "the deposit")'
    told = "CTX.will names none of the documents: lease.txt, a.letter.md.\n"
    assert told in call("run", "-", *two, stdin=will).err
    # Nothing is asked of the steps before it.
    before = 'b = FIND_EVENT(CTX, "the deposit")\na = FIND_REASON("CTX.will", b)'
    assert told in call("run", "-", *two, stdin=before).err
    assert "calls      0 made" in call("runs", "show", "last").out
    assert 'FIND_REASON("CTX.will", b)' in call("trace", "last").out
    assert "CTX -.-> s0" in call("graph", "-", stdin=will).out
    assert "there is one only, CTX" in call("run", "-", two[0], stdin=will).err
    near = call("run", "-", *two, stdin=will.replace("will", "lese")).err
    assert "a.letter.md. Did you mean CTX.lease.txt?" in near
    assert LEASE in call("run", "-", two[0], stdin=EACH).out


@pytest.mark.parametrize("bare", ["a.letter.md", "a.letter"])
def test_a_document_by_its_bare_name_is_a_text(bare: str, two: tuple[str, str], serve: Serve):
    said = f'"{bare}" is a text, and not the document'
    told = call("run", "-", *two, stdin=f'a = FIND_EVENT("{bare}", "the deposit")')
    by_ending = f'write "{NAMED}", and where there is one, CTX.'
    write = by_ending if bare.endswith(".md") else f'{said}: write "{NAMED}".\n'
    assert (told.code, write in told.out + told.err) == (1, True)
    # What is asked about it may be its name.
    assert call("run", "-", *two, stdin=f'a = FIND_EVENT(CTX, "{bare}")').code == 0
    server = serve([READS_ONE.replace(NAMED, bare), READS_ONE, f"> {PAID}"])
    answer = call("ask", *two, "What became of the deposit?", "--model", "m")
    assert f"step 1: {said}.\n" in server.asked[1].text
    assert f'rite "{NAMED}"' in server.asked[1].text
    assert (answer.code, f"a.letter.md, line 3: {PAID}" in answer.out) == (0, True)


def test_a_name_that_two_documents_have_is_told_with_both(two: tuple[str, str]):
    for folder, ending in (("a", "txt"), ("b", "md"), (".", "md")):
        Path(folder).mkdir(exist_ok=True)
        Path(folder, f"lease.{ending}").write_text(LEASE)
    plan = 'a = FIND_EVENT("CTX.lease", "the deposit")'
    for one, other in (("a/lease.txt", "b/lease.md"), ("lease.md", "lease.txt")):
        told = call("run", "-", one, other, stdin=plan).err
        assert f"CTX.lease may be CTX.{one} or CTX.{other}: write which.\n" in told
    alone = call("run", "-", "a/lease.txt", two[1], stdin=plan).err
    assert "Did you mean CTX.a/lease.txt?" in alone


def test_a_planner_is_told_the_names_of_several_documents(two: tuple[str, str], serve: Serve):
    bare = READS_ONE.replace('"', "", 2)
    server = serve([bare, READS_ONE.replace(NAMED, "CTX.will"), READS_ONE, f"> {PAID}"])
    answer = call("ask", *two, "What became of the deposit?", "--model", "m")
    first, again, other, step = server.asked
    told = "There is no document will.\n  Defined: CTX.lease.txt, CTX.a.letter.md."
    assert told in other.text
    assert (
        "CTX is 2 documents. They are:\n<documents>\nCTX.lease.txt\nCTX.a.letter.md\n" in first.text
    )
    assert f'One of several documents stands in quotes: "{NAMED}".' in again.text
    assert (PAID in step.text, LEASE in step.text) == (True, False)
    assert "not the whole document" not in step.text
    assert (answer.code, f"a.letter.md, line 3: {PAID}" in answer.out) == (0, True)
    call("ask", two[0], "What became of the deposit?", "--model", "m")
    alone = server.asked[4].text
    for word in ("documents>", "DOCUMENTS(CTX)", "CTX.lease", "in quotes"):
        assert (word in first.text, word in alone) == (True, False)


def test_more_documents_than_are_shown_are_counted():
    names = tuple(f"{number}.txt" for number in range(DOCUMENTS + 5))
    write = WritePlan("Why?", load_library("core"), documents=names)
    [*_, prompt] = render(write)
    assert f"CTX is {DOCUMENTS + 5} documents. The first of them:" in prompt["content"]
    assert (f"CTX.{DOCUMENTS - 1}.txt" in prompt["content"], "44.txt" in prompt["content"]) == (
        True, False,
    )  # fmt: skip


def test_a_folder_of_documents_is_indexed(two: tuple[str, str]):
    pytest.importorskip("tantivy", reason="pearl[corpus] is not installed")
    Path("papers/more").mkdir(parents=True)
    Path("papers/a.pdf").write_bytes(
        pdf_of([["Nothing", "of note."], ["A later page.", "", LEASE]])
    )
    Path(two[1]).rename("papers/more/letter.md")
    built = call("index", "papers", "-o", "papers.index", "--json").json
    assert (built["passages"], built["corpus"]["name"], built["fresh"]) == (4, "papers", True)
    assert not call("index", "papers", "-o", "papers.index", "--json").json["fresh"]
    found = call("index", "papers.index", "--search", "deposit", "--json").json
    assert {(one["id"], one["title"], one["text"]) for one in found} == {
        ("a.pdf, page 2, paragraph 3", "a.pdf", LEASE),
        ("more/letter.md, paragraph 1", "more/letter.md / Letter", PAID),
    }
    alone = call("index", "papers/a.pdf", "-o", "a.index", "--json").json
    assert (alone["passages"], alone["corpus"]["name"]) == (3, "a.pdf")
    found = call("index", "a.index", "--search", "deposit", "--json").json
    assert [one["id"] for one in found] == ["a.pdf, page 2, paragraph 3"]
    # What a corpus of JSON lines is called makes no document of it.
    Path("rows.txt").write_text('{"id": "r", "text": "A deposit."}\n', encoding="utf-8")
    rows = call("index", "rows.txt", "-o", "rows.index", "--json").json
    assert (rows["passages"], rows["corpus"]["name"]) == (1, "rows.txt")
    Path("papers/more/letter.md").write_text("", encoding="utf-8")
    told = one_line(call("index", "papers", "-o", "papers.index"), 2)
    assert "papers/more/letter.md is empty" in told
    assert call("index", "papers.index").code == 0
