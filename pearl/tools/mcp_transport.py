"""Requests of httpx2, the HTTP client of the MCP's SDK, over a session of `pearl.tools.web`.

What goes wrong is told apart, as the SDK tells it in other words.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import aiohttp
import httpx2
from yarl import URL

from pearl.tools.endpoint import origin_of
from pearl.tools.toolbox import ToolError
from pearl.tools.web import oversized, refusal, unreached


@dataclass
class OneOriginTransport(httpx2.AsyncBaseTransport):
    """Carries requests to one origin and to no other.

    Args:
        session: as `open_session` opens it.
        origin: all that is ever connected to.
        most: bytes of an answer.
        note: told of what goes wrong.
    """

    session: aiohttp.ClientSession
    origin: str
    most: int
    note: Callable[[ToolError], object]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The service's answer to a request; 502 where there is none."""
        url = URL(str(request.url), encoded=True)
        elsewhere = ToolError("host", f"It is sent on elsewhere: only {self.origin} is declared.")
        try:
            if origin_of(url.scheme, url.raw_host or "", url.port or 0) != self.origin:
                raise elsewhere
            response = await self.session.request(
                request.method,
                url,
                data=await request.aread(),
                headers=request.headers.multi_items(),
                allow_redirects=False,
            )
            if response.headers.get("Content-Encoding", "identity") != "identity":
                response.close()
                raise ToolError("reply", "Its answer is packed, which it was not asked for.")
        except (ToolError, aiohttp.ClientError, OSError, ValueError) as error:
            self.note(unreached(error))
            return httpx2.Response(502, request=request)
        if response.status >= 400:
            # By GET it would tell of itself, which few servers do, and none has to.
            if request.method == "POST":
                self.note(refusal(response.status))
        elif response.status >= 300:
            # It is followed where it stays with this host, port and scheme.
            self.note(elsewhere)
        return httpx2.Response(
            response.status,
            headers=[*response.headers.items()],
            stream=_Body(response, self.most, self.note),
            request=request,
        )


@dataclass
class _Body(httpx2.AsyncByteStream):
    """What a response says, as far as it may go."""

    response: aiohttp.ClientResponse
    most: int
    note: Callable[[ToolError], object]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        came = 0
        try:
            async for piece in self.response.content.iter_any():
                came += len(piece)
                if came > self.most:
                    raise oversized(self.most)
                yield piece
        except (ToolError, aiohttp.ClientError, OSError) as error:
            self.note(unreached(error))
            raise httpx2.StreamError("cut off") from None

    async def aclose(self) -> None:
        self.response.close()
