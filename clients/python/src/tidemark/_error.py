"""Everything this package raises.

    TidemarkError
    ├── ApiError          the server refused: `code`, `type`, `message`, `request_id`
    │   ├── Invalid       400, 413: the request cannot be right, from any caller
    │   ├── Denied        401, 403: this caller may not
    │   ├── NotFound      404, 410: what it names is not there
    │   ├── Conflict      409: what is there stands against it
    │   └── Unavailable   408, 429, 503: not now; it may succeed later
    ├── NoAnswer          no answer came: the connection could not be made, or broke
    ├── TooManyPending    more calls wait than `pending_max` allows
    └── Closed            the client has been closed
"""

from __future__ import annotations


class TidemarkError(Exception):
    """Whatever this package raises on its own behalf."""


class ApiError(TidemarkError):
    """The server refused. Branch on `type`; `message` is for people and may change."""

    def __init__(self, code: int, type: str, message: str, request_id: str | None = None) -> None:
        super().__init__(f"{code} {type}: {message}")
        self.code = code
        """The HTTP status, or that of one operation in a batch."""
        self.type = type
        """One of the types that the server's page of errors lists."""
        self.message = message
        self.request_id = request_id
        """The server's log knows the request by it; None for a part of a batch."""


class Invalid(ApiError):
    """The request cannot be right, from any caller."""


class Denied(ApiError):
    """This caller may not do this."""


class NotFound(ApiError):
    """What the request names is not there, or this caller may not know of it."""


class Conflict(ApiError):
    """What is there stands against it: an id or a unique value is taken, an assertion fails."""


class Unavailable(ApiError):
    """Not now: too much is waiting, or the mark asked for has not arrived."""


class NoAnswer(TidemarkError):
    """No answer came, and sending the request again did not help or was not safe."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent
        """The request may have reached the server: whether it had its effect is not known."""


class TooManyPending(TidemarkError):
    """More calls wait than `pending_max` allows; wait for some of them first."""


class Closed(TidemarkError):
    """The client has been closed."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Denied,
    403: Denied,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: NotFound,
    413: Invalid,
    429: Unavailable,
    503: Unavailable,
}


def refusal(body: object, status: int, request_id: str | None = None) -> ApiError:
    """The error that a refusal's body describes; what is no such body is named by its status."""
    shape = body if isinstance(body, dict) else {}
    code = shape.get("code")
    kind = shape.get("type")
    message = shape.get("message")
    code = code if isinstance(code, int) else status
    return _BY_CODE.get(code, ApiError)(
        code,
        kind if isinstance(kind, str) else "unknown",
        message if isinstance(message, str) else f"HTTP status {status} without an error's body",
        request_id,
    )
