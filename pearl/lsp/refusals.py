"""How the server says that it does not do what is asked."""

from __future__ import annotations

from lsprotocol.types import LSPErrorCodes
from pygls.exceptions import JsonRpcException

from pearl.screen import printable


def refused(message: str) -> JsonRpcException:
    """The error that an editor shows as one line."""
    return JsonRpcException(printable(message), code=LSPErrorCodes.RequestFailed.value)
