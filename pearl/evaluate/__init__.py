"""Evaluation: data sets, methods, metrics, and what a reader is shown of them."""
