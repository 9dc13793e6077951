"""The tables of a report, one a file: what methods came to, side by side."""
