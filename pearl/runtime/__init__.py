"""The one loop: next steps → check → append → execute → journal."""
