"""The provider's Batch API as a model: slower than live calls, and cheaper."""

from pearl.llm.batches.model import Batches, open_batches
from pearl.llm.batches.terms import BatchStatus

__all__ = ["BatchStatus", "Batches", "open_batches"]
