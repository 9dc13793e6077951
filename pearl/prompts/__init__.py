"""The words of every call: one template a file, rendered in one place."""
