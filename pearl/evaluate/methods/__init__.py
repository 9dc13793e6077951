"""Methods, one a file; `METHODS` lists them."""
