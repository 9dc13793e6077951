"""Runs as pages for a browser, made from their journals: served, or as one file."""
