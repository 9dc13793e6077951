"""Plans and action libraries in an editor, by the Language Server Protocol (docs/editor.md)."""
