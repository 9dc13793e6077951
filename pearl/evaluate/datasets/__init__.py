"""Data sets, one a file; `DATASETS` lists them."""
