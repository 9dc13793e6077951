"""Search in an index, with tantivy (https://github.com/quickwit-oss/tantivy-py).

The engine gets terms, never text: one way of reading words serves indexes and
documents alike, and no query reaches a parser of queries. Its scores are BM25
with k1 = 1.2 and b = 0.75 (Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009, section 3.2).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

from pearl.retrieval.base import Passage, in_order, near
from pearl.retrieval.folder import IndexInfo, damaged, read_info
from pearl.retrieval.words import field_terms, query_terms
from pearl.source import InputError

if TYPE_CHECKING:
    from tantivy import DocAddress, Document, Index, Query, Searcher

_SPARE = 16
"""Passages looked at beyond those asked for, as equal ones stand by their ids."""


def load_engine() -> str:
    """See that the engine is there; its version.

    Raises:
        InputError: it is not installed.
    """
    try:
        import tantivy  # noqa: F401 - whether it can be is the question
    except ImportError:
        raise InputError(
            "An index needs tantivy: install it with pip install 'pearl[corpus]'."
        ) from None
    return version("tantivy")


def new_index(folder: Path) -> Index:
    """An empty index of the engine's, to be written to.

    Args:
        folder: where to.
    """
    from tantivy import Index, SchemaBuilder

    schema = SchemaBuilder()
    # Neither positions nor the engine's own reading: terms come with spaces between them.
    schema.add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
    schema.add_bytes_field("passage", stored=True)
    return Index(schema.build(), str(folder), reuse=False)


def document(id: str, title: str, text: str) -> Document:
    """A paragraph as the engine takes it.

    Args:
        id: its own.
        title: may be empty.
        text: the paragraph.
    """
    from tantivy import Document

    found = Document()
    found.add_text("terms", " ".join(field_terms(title, text)))
    found.add_bytes("passage", _packed(id, title, text))
    return found


def _packed(*texts: str) -> bytes:
    # JSON may hold halves of characters, and a corpus is given back to the letter.
    return json.dumps(texts, ensure_ascii=False).encode("utf-8", "surrogatepass")


def open_index(path: str) -> CorpusRetriever:
    """Open an index; the engine itself is started by the first search.

    Args:
        path: the folder that ``pearl index`` made.

    Raises:
        InputError: there is none, it is of another version, it is damaged, or
            the engine is not installed.
    """
    load_engine()
    return CorpusRetriever(path, read_info(path))


@dataclass(frozen=True)
class CorpusRetriever:
    """The paragraphs of an index.

    Threads may share one: the engine's view of an index never changes, and a
    search lets other threads run. In a coroutine, ``await
    asyncio.to_thread(retriever.search, query, k)``.

    Args:
        path: the index.
        info: what it says of itself.
    """

    path: str
    info: IndexInfo

    def search(self, query: str, k: int) -> list[Passage]:
        """The paragraphs that bear most on a query, as `Retriever.search`.

        Raises:
            InputError: the index is damaged.
        """
        wanted = query_terms(query)
        if not wanted or k < 1:
            return []
        try:
            found = self._hits(self._query(wanted), k)
            passages = [self._passage(score, address) for score, address in found]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise damaged(self.path, " ".join(str(error).split())) from None
        except BaseException as error:
            # What the engine did not expect reaches Python as a panic, which is no Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise damaged(self.path, "the engine cannot read it") from None
        return in_order(passages)[:k]

    @cached_property
    def _opened(self) -> tuple[Index, Searcher]:
        # The index may have been built anew since it was named; then that one is opened.
        info = read_info(self.path)
        try:
            return _open(Path(self.path, info.part), info, self)
        except ValueError:
            if info.engine == load_engine():
                raise
            raise InputError(
                f"{self.path} was built with tantivy {info.engine[:20]}, which the tantivy that is "
                f"installed, {load_engine()}, does not read: build it again with pearl index."
            ) from None

    def _query(self, wanted: Sequence[str]) -> Query:
        from tantivy import Occur, Query

        schema = self._opened[0].schema
        return Query.boolean_query(
            [(Occur.Should, Query.term_query(schema, "terms", one, "freq")) for one in wanted]
        )

    def _hits(self, query: Query, k: int) -> list[tuple[float, DocAddress]]:
        """The best hits, and with them every one that is equal to the last of those asked for."""
        searcher = self._opened[1]
        limit = min(k + _SPARE, searcher.num_docs)
        while True:
            hits = searcher.search(query, limit, count=False).hits
            for at, (one, other) in enumerate(pairwise(hits[k - 1 :]), k):
                if not near(one[0], other[0]):
                    return hits[:at]
            if len(hits) < limit or limit == searcher.num_docs:
                return hits
            limit = min(limit * 8, searcher.num_docs)

    def _passage(self, score: float, address: DocAddress) -> Passage:
        stored: Any = self._opened[1].doc(address).get_first("passage")
        id, title, text = json.loads(bytes(stored).decode("utf-8", "surrogatepass"))
        return Passage(id, title, text, score)


def _open(part: Path, info: IndexInfo, user: object) -> tuple[Index, Searcher]:
    """Open a part of an index, which need not be one's own to write.

    The engine makes a lock beside an index that it opens, so it is shown the
    files in a folder of its own, which goes with the one who uses it.
    """
    from tantivy import Index

    folder = mkdtemp(prefix="pearl-index-")
    finalize(user, rmtree, folder, ignore_errors=True)
    for name in info.files:
        Path(folder, name).symlink_to(part.absolute() / name)
    index = Index.open(folder)
    return index, index.searcher()
