"""Files of questions, each about a document."""

from pearl.batch.job import batch_job
from pearl.batch.questions import Index, read_index
from pearl.batch.work import Setup

__all__ = ["Index", "Setup", "batch_job", "read_index"]
