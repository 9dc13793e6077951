"""Runs as pages: what a journal says, put together for a reader, in one file."""

from pearl.viewer.page import job_page, run_page

__all__ = ["job_page", "run_page"]
