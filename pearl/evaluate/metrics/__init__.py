"""Measures of answers and of what supports them, and how sure a figure is."""
