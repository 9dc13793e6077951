"""What pygls leaves open: requests that cannot be read, or come too late, are answered too."""

from __future__ import annotations

import logging
from typing import Any

from lsprotocol.types import EXIT, LSPErrorCodes
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import RPCMessage, RPCRequest

logger = logging.getLogger(__name__)


def is_trouble(record: logging.LogRecord) -> bool:
    """Whether something went wrong; pygls would log each refusal as an exception."""
    return not (record.exc_info and _is_refusal(record.exc_info[1]))


def _is_refusal(error: BaseException | None) -> bool:
    return getattr(error, "code", None) == LSPErrorCodes.RequestFailed.value


class Protocol(LanguageServerProtocol):
    """The protocol; a request always has an answer, if only an error."""

    @property
    def was_shut_down(self) -> bool:
        """Whether the editor took its leave before it ended the connection."""
        return self._shutdown

    def structure_message(self, data: dict[str, Any]) -> Any:  # noqa: ANN401 - as pygls'
        """A message from JSON; one that is none is answered, and raised."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if isinstance(data.get("id"), str | int) and "method" in data:
                self._send_response(data["id"], None, error.to_response_error())
            raise

    def handle_message(self, message: RPCMessage) -> None:
        """Answer a message, also one that comes after the shutdown."""
        if self._shutdown and isinstance(message, RPCRequest) and message.method != EXIT:
            error = JsonRpcInvalidRequest("The server is shut down: start it anew.")
            self._send_response(message.id, None, error.to_response_error())
            return
        super().handle_message(message)


class Server(LanguageServer):
    """The server; what goes wrong inside it is told on standard error, not in a window."""

    protocol: Protocol

    def report_server_error(self, error: Exception, source: type[Exception]) -> None:
        """Say on standard error what went wrong."""
        if not _is_refusal(error):
            logger.warning("%s: %s", type(error).__name__, error)
