"""Data files of Pearl, found through importlib.resources."""
