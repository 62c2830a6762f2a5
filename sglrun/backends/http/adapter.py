"""The adapter: how ``requests`` reaches one address, asked for nothing twice.

What ``HTTPAdapter`` works out with every request is the same for all requests to one
address: the pool of its connections, with its proxy and what it trusts. It is found
with the first request here, and kept.
"""

from collections.abc import Mapping
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter


class OneAddressAdapter(HTTPAdapter):
    """Sends requests to one address only, with the same settings each; no cookies."""

    def __init__(self, pool_maxsize: int) -> None:
        """Keep up to *pool_maxsize* idle connections."""
        super().__init__(pool_maxsize=pool_maxsize)
        self._pool: Any = None

    def get_connection_with_tls_context(
        self,
        request: PreparedRequest,
        verify: Any,
        proxies: Any = None,
        cert: Any = None,
    ) -> Any:
        """Return the pool of connections to the address."""
        if self._pool is None:
            self._pool = super().get_connection_with_tls_context(
                request, verify, proxies=proxies, cert=cert
            )
        return self._pool

    def request_url(self, request: PreparedRequest, proxies: Any) -> str:
        """Return what the request line names."""
        if proxies:
            return super().request_url(request, proxies)
        return request.path_url

    def build_response(self, req: PreparedRequest, resp: Any) -> Response:
        """Return a response with a status, headers and a body, and nothing else."""
        response = Response()
        response.status_code = resp.status
        response.headers = resp.headers
        response.raw = resp
        response.request = req
        return response

    def close(self) -> None:
        """Close idle connections; a later request opens others."""
        self._pool = None
        super().close()


def prepared(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> PreparedRequest:
    """Return a request of parts that are known to be good."""
    request = PreparedRequest()
    request.method = method
    request.url = url
    # Any mapping will do for sending, and a plain one is cheap to make.
    request.headers = headers  # type: ignore[assignment]
    request.body = body
    return request
