"""What installed packages add, by entry points in the groups ``pearl.actions`` and so on.

Nothing is looked up for a name that is Pearl's own, and only what is named is loaded.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pearl.lang.source import InputError

Group: TypeAlias = Literal["actions", "metrics", "strategies", "tools"]


def extension(group: Group, name: str) -> Any:  # noqa: ANN401 - whatever a package offers
    """What a package offers under a name; None where none does.

    Raises:
        InputError: it cannot be loaded.
    """
    # Reading what is installed takes its time.
    from importlib.metadata import entry_points

    for entry in entry_points(group=f"pearl.{group}", name=name):
        try:
            return entry.load()
        except Exception as error:  # noqa: BLE001 - whatever a package's code raises
            package = entry.dist.name if entry.dist else entry.value
            told = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(
                f"{name} of the package {package} cannot be loaded ({told})."
            ) from None
    return None


def source_digest(code: object) -> str:
    """The hash of a function's or a class's text; of what was typed at a prompt, that of its code.

    Another text is another function: what was kept of the one says nothing of the other.
    """
    import inspect

    from pearl.lang.values import digest

    try:
        return digest(inspect.getsource(code))  # type: ignore[arg-type]
    except (OSError, TypeError):
        compiled = getattr(code, "__code__", None)
        return digest(repr((compiled.co_code, compiled.co_names)) if compiled else repr(type(code)))
