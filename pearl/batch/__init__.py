"""Many questions at once, over many documents: nothing lost, nothing paid twice."""

from pearl.batch.batch import run_batch
from pearl.batch.crew import Crew
from pearl.batch.questions import Index, read_index
from pearl.batch.tally import Tally
from pearl.batch.work import Setup

__all__ = ["Crew", "Index", "Setup", "Tally", "read_index", "run_batch"]
