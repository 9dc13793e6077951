"""Work in many pieces: stopped at any time and gone on with, nothing lost, nothing paid twice."""

from pearl.jobs.crew import Crew
from pearl.jobs.run import run_tasks
from pearl.jobs.start import Job, Means, read_results, start
from pearl.jobs.tally import Tally
from pearl.jobs.task import Listed, Task, Tasks, Work

__all__ = [
    "Crew",
    "Job",
    "Listed",
    "Means",
    "Tally",
    "Task",
    "Tasks",
    "Work",
    "read_results",
    "run_tasks",
    "start",
]
