"""Passages that bear on a query: of one document, or of a corpus too large to read.

Both answer in one shape (`Retriever`), read words in one way (`terms`) and
count a title's words above a text's. No model is asked.
"""

from pearl.retrieval.base import Passage, Retriever, told_passages
from pearl.retrieval.build import Built, build_index
from pearl.retrieval.corpus import Row, read_corpus
from pearl.retrieval.document import DocumentRetriever
from pearl.retrieval.engine import CorpusRetriever, open_index
from pearl.retrieval.folder import IndexInfo, check_index, is_index, read_info
from pearl.retrieval.sentences import sentences
from pearl.retrieval.words import terms

__all__ = [
    "Built",
    "CorpusRetriever",
    "DocumentRetriever",
    "IndexInfo",
    "Passage",
    "Retriever",
    "Row",
    "build_index",
    "check_index",
    "is_index",
    "open_index",
    "read_corpus",
    "read_info",
    "sentences",
    "terms",
    "told_passages",
]
