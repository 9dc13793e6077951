"""Many questions at once, over many documents: nothing lost, nothing paid twice."""

from pearl.batch.batch import Batch, run_batch
from pearl.batch.questions import Index, read_index
from pearl.batch.tally import Tally
from pearl.batch.work import Setup

__all__ = ["Batch", "Index", "Setup", "Tally", "read_index", "run_batch"]
