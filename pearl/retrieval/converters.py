"""Reads documents as text: text files, PDF, Word, EPUB and HTML.

A form feed ends each page of a PDF. Files are not trusted: each is converted in a process of its
own, with a limit to its time and memory and no access to the network.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from io import BytesIO
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import indent
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

from pearl.lang.errors import InputError, LinesError, install_command, refuse
from pearl.lang.source import START, Source, decode, files_below, marked, read_bytes
from pearl.lang.text import composed, one_line, page_encoding, printable
from pearl.retrieval import text_cache
from pearl.retrieval.pdf import pdf

if TYPE_CHECKING:
    from zipfile import ZipFile

    from bs4 import BeautifulSoup, Tag
    from bs4.element import PageElement

LARGEST = 100_000_000
"""The most bytes of a file that is converted, and the most characters of its text."""

SEVERAL = " + "
"""What joins the paths of several documents in the name of the text that they make."""

ENDINGS = (".txt", ".md", ".markdown", ".pdf", ".docx", ".epub", ".html", ".htm", ".xhtml")
"""The endings of file names that mark a document."""

_MOST = 1000
_SECONDS = 120
_LOOKING = 0.2
"""Seconds between two checks whether a conversion is still wanted."""

_MEMORY = 4_000_000_000
"""The most bytes of memory of the converter's process."""

_PACKED = 400_000_000
"""The most bytes that a packed file may hold when it is unpacked."""

_HTML = re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html)\b", re.I | re.S)

_SPAN = re.compile(r"[0-9]{1,2}")

_LOCKED = re.compile(r"PDFium: Incorrect password error\)$|, password required for extraction$")
"""The ends of the errors of pypdfium2 and zipfile for an encrypted file; the word "password" alone
may come from the file itself."""

_FORBIDDEN = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork")


def read_document(path: str, seconds: float = _SECONDS, stopped: Event | None = None) -> Source:
    """Read a document from a path, or from standard input when the path is ``-``.

    Args:
        path: a text, PDF, Word (.docx), EPUB or HTML file.
        seconds: how long its conversion may take.
        stopped: as `read_documents` takes it.

    Raises:
        InputError: it cannot be read, has no text, or needs a converter that is not installed.
        CancelledError: ``stopped`` was set while it was converted.
    """
    data = read_bytes(path, "document")
    kind = _kind(path, data)
    if kind is None:
        if form := marked(data):
            data = data.decode(form, "replace").encode("utf-8", "replace")
        source = decode(path, data, "document")
        return Source(path, composed(source.text))
    name = "Standard input" if path == "-" else path
    text = text_cache.read(_version(kind), data)
    if text is None:
        text = _convert(kind, name, data, seconds, stopped)
    if not text.strip():
        scanned = ", only pictures: have their text recognised first, as ocrmypdf does"
        raise InputError(f"{name} has no text{scanned if kind.convert is pdf else ''}.")
    return Source(path, composed(text))


def _convert(kind: _Kind, name: str, data: bytes, seconds: float, stopped: Event | None) -> str:
    """The text of a file, which the cache holds from now on; raises as `read_document` does."""
    if not all(map(find_spec, kind.modules)):
        raise InputError(f"{name} is {kind.title}: {install_command('documents')} to read it.")
    if len(data) > LARGEST:
        raise InputError(f"{name} has {len(data):,} bytes, and {LARGEST:,} are read: split it.")
    try:
        done = _converted(kind, data, seconds, stopped)
    except OSError as error:
        raise InputError(
            f"{name} cannot be converted ({error.strerror}): make room in the folder for temporary "
            "files, or name another with TMPDIR."
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{name} took longer than {seconds:g} seconds to read as {kind.title}: split it, or "
            "save it as text."
        ) from None
    if done.returncode:
        reason = (
            done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200].rstrip(".")
        )
        if _LOCKED.search(reason):
            raise InputError(f"{name} has a password: save it without one.")
        raise InputError(
            f"{name} cannot be read as {kind.title} ({reason or 'its reader crashed'}): save it "
            "anew, or as text."
        )
    text_cache.write(_version(kind), data, done.stdout)
    return done.stdout.decode("utf-8")


@lru_cache(maxsize=8)
def _version(kind: _Kind) -> bytes:
    """A hash of the code that converts a kind of file: Pearl's, Python's and that of libraries."""
    from importlib.metadata import PackageNotFoundError, version  # Slow, and most files are texts.

    code = [kind.title.encode(), sys.version.encode()]
    for name in ("pearl", *kind.modules):
        with suppress(PackageNotFoundError):
            code.append(version(_DISTRIBUTIONS.get(name, name)).encode())
    here = Path(__file__)
    # Where Pearl's files cannot be read, in a zip for example, its version has to do.
    with suppress(OSError):
        own = [here.with_name(name) for name in ("converters.py", "pdf.py", "word_numbering.py")]
        own.append(here.parents[1] / "lang" / "text.py")
        code += [file.read_bytes() for file in own]
    return sha256(b" ".join(code)).digest()


def _converted(
    kind: _Kind, data: bytes, seconds: float, stopped: Event | None
) -> subprocess.CompletedProcess[bytes]:
    """Convert a file in a process of its own, which ends when ``stopped`` is set; raises
    `subprocess.TimeoutExpired` where it takes longer than ``seconds``."""
    home = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
    # -P: no module may be imported from the folder of the document.
    words = [sys.executable, "-P", "-m", __name__, kind.convert.__name__]
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8:replace"}
    pipe, until = subprocess.PIPE, monotonic() + seconds
    # A file, because `communicate` does not send the rest of an input after its timeout.
    in_memory = hasattr(os, "memfd_create")
    with open(os.memfd_create("document"), "w+b") if in_memory else TemporaryFile() as given:
        given.write(data)
        given.seek(0)
        process = subprocess.Popen(  # noqa: S603 - our own words
            words, stdin=given, stdout=pipe, stderr=pipe, env=environment
        )
    with process:
        try:
            while (left := until - monotonic()) > 0:
                if stopped and stopped.is_set():
                    raise CancelledError
                with suppress(subprocess.TimeoutExpired):
                    out, told = process.communicate(timeout=min(left, _LOOKING))
                    return subprocess.CompletedProcess(words, process.returncode, out, told)
        finally:
            process.kill()
    raise subprocess.TimeoutExpired(words, seconds)


async def read_in_thread(paths: Sequence[str]) -> Source:
    """`read_documents` in a thread, as a conversion may take minutes; it ends if the call is
    cancelled."""
    stopped = Event()
    try:
        return await asyncio.to_thread(read_documents, paths, stopped)
    finally:
        stopped.set()


def read_documents(paths: Sequence[str], stopped: Event | None = None) -> Source:
    """Read documents as one text, in which each stands under its name.

    Args:
        paths: paths for `read_document`, or folders, which stand for the documents in them.
        stopped: an event that is set when the documents are no longer needed.

    Raises:
        LinesError: some documents cannot be read; each is named.
        InputError: a folder has no document, or too many.
        CancelledError: ``stopped`` was set before all were read.
    """
    files = list(dict.fromkeys(file for path in paths for file in files_of(path)))
    read: list[Source] = []
    wrong: list[str] = []
    for file in files:
        if stopped and stopped.is_set():
            raise CancelledError
        try:
            read.append(read_document(file, stopped=stopped))
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise LinesError(wrong)
    if files == [*paths] and len(files) == 1:
        return read[0]
    home = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])
    names = [printable(os.path.relpath(file, home)) if file != "-" else "input" for file in files]
    texts = (source.text.replace(START, " ").strip("\n") for source in read)
    parts = (f"{START}# {name}\n\n{text}\n\n" for name, text in zip(names, texts, strict=True))
    return Source(SEVERAL.join(paths), "".join(parts))


def files_of(path: str) -> list[str]:
    """The files of a folder that are documents by their endings, in order; for a file, the file.

    Links, and names that begin with a dot, are passed over.

    Raises:
        InputError: a folder has no document, or more than a thousand, or the path is empty.
        LinesError: a folder, or one below it, cannot be read.
    """
    if not path:
        raise InputError("A document has no name: give the path of a file or folder.")
    if not os.path.isdir(path):
        return [path]
    files = [str(file) for file in _files(path) if file.suffix.lower() in ENDINGS]
    if not 0 < len(files) <= _MOST:
        contents = f"{len(files):,} documents" if files else f"no document ({' '.join(ENDINGS)})"
        raise InputError(f"{path} is a directory with {contents}: name 1 to {_MOST:,} files.")
    return files


def passed_over(paths: Sequence[str]) -> list[str]:
    """The files of folders that are no documents by their endings, in order."""
    return [
        str(file)
        for path in paths
        if os.path.isdir(path)
        for file in _files(path)
        if file.suffix.lower() not in ENDINGS
    ]


def _files(path: str) -> list[Path]:
    """The files of a folder and those below it, in order, but for links and hidden ones, also
    those that Word keeps beside an open document; a `LinesError` where a folder cannot be read."""

    def is_hidden(name: str | Path) -> bool:
        return any(part.startswith((".", "~$")) for part in Path(name).relative_to(path).parts)

    found, shut = files_below(path)
    refuse([problem for problem in shut if not is_hidden(problem.name)])
    return [file for file in found if not os.path.islink(file) and not is_hidden(file)]


def docx(data: bytes) -> str:
    """The text of a Word file, as Markdown without its pictures."""
    from warnings import catch_warnings, simplefilter
    from zipfile import ZipFile

    import mammoth
    from mammoth.images import img_element

    from pearl.retrieval.word_numbering import numbered

    file = BytesIO(data)
    with _unpacked(data) as packed:
        names = packed.namelist()
        main = _part(packed, "", "officeDocument", "word/document.xml")
        lists = _part(packed, main, "numbering", "word/numbering.xml")
        styles = _part(packed, main, "styles", "word/styles.xml")
        text = packed.read(main) if main in names else None
        if text is not None and lists in names:
            looks = packed.read(styles) if styles in names else None
            text = numbered(text, packed.read(lists), looks)
    if text is not None:
        # Of two parts of one name the later is read. A damaged part that nobody needs does no harm.
        with ZipFile(file, "a") as packed, catch_warnings():
            simplefilter("ignore")
            # The library does not know text that is struck with a double line, and reads only the
            # first mark of a text.
            packed.writestr(main, _NOT_STRUCK.sub(b"", text).replace(b"<w:dstrike", b"<w:strike"))
    page = mammoth.convert_to_html(file, convert_image=img_element(lambda image: {}))
    return _markdown(page.value)


_NOT_STRUCK = re.compile(
    rb"""<w:(d?strike)\s+w:val\s*=\s*["'](?:0|false|off)["']\s*(?:/>|>\s*</w:\1\s*>)"""
)
"""What says in a Word file that a text is not struck."""


def _part(packed: ZipFile, of: str, kind: str, usual: str) -> str:
    """The name of a part of a Word file, such as its numbering, by the relationships of another
    part, or of the file itself (""); where these do not name it, the usual one."""
    from posixpath import join

    from lxml import etree

    folder, _, name = of.rpartition("/")
    names = set(packed.namelist())
    if (relations := join(folder, "_rels", f"{name}.rels")) in names:
        parser = etree.XMLParser(resolve_entities=False)
        for each in etree.fromstring(packed.read(relations), parser).iterfind("{*}Relationship"):
            target = join(folder, each.get("Target", "")).lstrip("/")
            if each.get("Type", "").endswith(f"/relationships/{kind}") and target in names:
                return target
    return usual


def epub(data: bytes) -> str:
    """The text of an EPUB's chapters in the order of its spine, as Markdown."""
    from posixpath import dirname, join, normpath
    from urllib.parse import unquote

    from bs4 import BeautifulSoup

    def tags(file: str, name: str) -> list[dict[str, str]]:
        # No parser of XML: there are no entities to expand.
        soup = BeautifulSoup(_declared(book.read(file)), "html.parser")
        elements = soup.find_all(re.compile(rf"(?:\w+:)?{name}$"))
        return [{key: str(value) for key, value in tag.attrs.items()} for tag in elements]

    with _unpacked(data) as book:
        package = tags("META-INF/container.xml", "rootfile")[0]["full-path"]
        files = {item["id"]: unquote(item["href"]) for item in tags(package, "item")}
        spine = [files[ref["idref"]] for ref in tags(package, "itemref")]
        chapters = [normpath(join(dirname(package), file)) for file in spine]
        return "\n\n".join(_markdown(_declared(book.read(file))) for file in chapters)


def html(data: bytes) -> str:
    """The text of an HTML page, as Markdown without links and pictures."""
    return _markdown(_declared(data))


def _declared(data: bytes) -> str:
    """A page's characters, in the encoding that it declares, else in UTF-8."""
    from bs4.dammit import EncodingDetector

    named = page_encoding(EncodingDetector.find_declared_encoding(data, is_html=True))
    # As in browsers: if the declaration itself can be read as ASCII, the page is not in UTF-16.
    in_place = {"iso8859-1": "cp1252", "utf-16": "utf-8-sig", "utf-32": "utf-8-sig"}
    return data.decode(in_place.get(named.removesuffix("-le").removesuffix("-be"), named))


def _markdown(page: str) -> str:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    class Converter(MarkdownConverter):
        """Gives each item of a list the number that the page shows, and marks struck text."""

        def convert_li(self, item: Tag, text: str, parent_tags: set[str]) -> str:
            if id(item) not in numbers or not text.strip():
                plain: str = super().convert_li(item, text, parent_tags)  # type: ignore[misc]
                return plain
            number = f"{numbers[id(item)]}. "
            return f"{number}{indent(text.strip(), ' ' * len(number)).lstrip()}\n"

        def convert_del(self, struck: Tag, text: str, parent_tags: set[str]) -> str:
            if not parent_tags.isdisjoint(_STRUCK):
                return text
            # It may hold lines. NUL, which no page has, becomes a space beside other text.
            return re.sub(r"\S(?:.*\S)?", "\0~~\\g<0>~~\0", text)

        convert_s = convert_strike = convert_del

    # Unlike html.parser, lxml ends cells and items that have no closing tag.
    soup = BeautifulSoup(re.sub(r"<\?[^>]*+>?", "", page), "lxml")
    for tag in soup(["script", "style", "title", "head", "template"]):
        tag.decompose()
    for struck in soup(_STRUCK):
        if struck.name in _STRUCK and struck.find(_BLOCKS):
            _strike(struck, soup)
    numbers = {id(item): number for tag in soup("ol") for item, number in _numbers(tag)}
    for cell in soup(["td", "th"], colspan=lambda span: span and not _SPAN.fullmatch(span)):
        # Each column that a cell spans becomes characters of the text.
        cell["colspan"] = "99" if str(cell["colspan"]).isdecimal() else "1"
    plain = ["a", "img", "b", "strong", "i", "em", "code", "sup", "sub"]
    text: str = Converter(
        heading_style="ATX", strip=plain, table_infer_header=True, escape_misc=False,
        escape_asterisks=False, escape_underscores=False,
    ).convert_soup(soup)  # fmt: skip
    text = _STRUCK_INSIDE.sub(r"\1", text.replace("\f", " "))
    text = _BESIDE_STRUCK.sub(" ", text).replace("\0", "")
    return re.sub(r"\n{3,}", "\n\n", text).strip()


_STRUCK_INSIDE = re.compile(r"(?<=\w)\0+(~~[^\s\0]+~~)\0+(?=\w)")
"""Struck text inside a word or number."""

_BESIDE_STRUCK = re.compile(r"""(?<=[^\s([{"'“‘])\0+(?=~~)|(?<=~~)\0+(?=[^\s.,;:!?)\]}"'”’])""")
"""Where struck text stands beside a word without a space."""

_STRUCK = ("del", "s", "strike")
"""The tags of HTML for struck text."""

_BLOCKS = (
    "h1 h2 h3 h4 h5 h6 p div article section blockquote pre hr ol ul li dl dt dd "
    "table caption thead tbody tfoot tr th td figcaption"
).split()
"""The tags of HTML that are lines or cells in Markdown."""

_FORMS = {"a": "lowerAlpha", "A": "upperAlpha", "i": "lowerRoman", "I": "upperRoman"}
"""The numbering formats of an ordered list in HTML, by its type."""

_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,9}\s*")


def _strike(struck: Tag, page: BeautifulSoup) -> None:
    """Mark the text of the blocks in a struck part of a page, and the text between them, as struck:
    around a block, the mark would hide what the block is."""
    from bs4 import Tag

    def has_blocks(part: PageElement) -> bool:
        return isinstance(part, Tag) and (part.name in _BLOCKS or part.find(_BLOCKS) is not None)

    for tag in [struck, *struck(has_blocks)]:
        tag.name = "span" if tag.name in _STRUCK else tag.name
        for blocks, group in groupby([*tag.children], has_blocks):
            parts = [*group]
            if not blocks and any(part.get_text(strip=True) for part in parts):
                parts[0].wrap(page.new_tag("del")).extend(parts[1:])


def _numbers(items: Tag) -> Iterator[tuple[Tag, str]]:
    """The items of an ordered list in HTML, each with its number."""
    from pearl.retrieval.word_numbering import in_form

    inside = items("li", recursive=False)
    step = -1 if items.has_attr("reversed") else 1
    number = _whole(items.get("start"), len(inside) if step < 0 else 1)
    for item in inside:
        number = _whole(item.get("value"), number)
        form = str(item.get("type") or items.get("type"))
        yield item, in_form(number, _FORMS.get(form, "decimal"))
        number += step


def _whole(text: object, default: int) -> int:
    return int(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else default


def _unpacked(data: bytes) -> ZipFile:
    from zipfile import ZipFile

    packed = ZipFile(BytesIO(data))
    if sum(member.file_size for member in packed.infolist()) > _PACKED:
        raise ValueError("too much is packed in it")
    return packed


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of file: its name in messages, the function that converts it, and its modules."""

    title: str
    convert: Callable[[bytes], str]
    modules: tuple[str, ...]


_KINDS = {
    kind.convert.__name__: kind
    for kind in (
        _Kind("a PDF", pdf, ("pypdfium2",)),
        _Kind("a Word file", docx, ("mammoth", "markdownify", "bs4", "lxml")),
        _Kind("an EPUB", epub, ("markdownify", "bs4", "lxml")),
        _Kind("a page of HTML", html, ("markdownify", "bs4", "lxml")),
    )
}

_DISTRIBUTIONS = {"bs4": "beautifulsoup4"}
"""The packages of modules that have another name."""


def _kind(path: str, data: bytes) -> _Kind | None:
    """The kind of a file, by its content, or by its name where the content is damaged; None for
    text, and for files that cannot be read."""
    if data.startswith(b"%PDF-"):
        return _KINDS["pdf"]
    if data.startswith(b"PK\x03\x04"):
        # A damaged file lacks its end, where the names of the packed files stand.
        if b"META-INF/container.xml" in data:
            return _KINDS["epub"]
        if b"word/document" in data:
            return _KINDS["docx"]
        ending = path.lower().rpartition(".")[2]
        return _KINDS[ending] if ending in ("docx", "epub") else None
    page = path.lower().endswith((".html", ".htm", ".xhtml")) or _HTML.match(data[:2000])
    return _KINDS["html"] if page else None


def _text(kind: _Kind, data: bytes) -> str:
    """The text of a file's bytes; a ValueError where it is too long."""
    text = kind.convert(data)
    if len(text) > LARGEST:
        raise ValueError(f"its text has {len(text):,} characters, and {LARGEST:,} are read")
    return text


def _refuse(event: str, _: object) -> None:
    if event.startswith(_FORBIDDEN):
        raise PermissionError(f"a document asked for {event}")


def _main(kind: str) -> None:
    """Convert standard input to standard output, within limits."""
    import zlib
    from zipfile import BadZipFile

    try:
        import resource
    except ImportError:
        pass  # There is none on Windows.
    else:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sys.addaudithook(_refuse)
    try:
        text = _text(_KINDS[kind], sys.stdin.buffer.read())
    except (BadZipFile, EOFError, zlib.error):
        sys.exit("it is damaged")
    except (Exception, RecursionError) as error:  # noqa: BLE001 - whatever a converter raises
        sys.exit(one_line(str(error)) or type(error).__name__)
    sys.stdout.write(text)


if __name__ == "__main__":
    _main(sys.argv[1])
