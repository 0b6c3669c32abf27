"""One HTTP POST, to the given address only, within a deadline that the server cannot extend."""

from __future__ import annotations

import base64
import http.client
import socket
import threading
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

DEADLINE = 10.0  # seconds for the whole request, however slowly the answer comes


def post(url: str, headers: Mapping[str, str], body: bytes, deadline: float = DEADLINE) -> None:
    """Sends a POST; OSError unless the answer is a success.

    Redirects are not followed, because the headers may contain secrets.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise OSError("only http:// and https:// addresses are posted to")
    connection_class = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connection_class(parts.hostname, parts.port, timeout=deadline)
    timer = threading.Timer(deadline, _shut_down, [connection])
    timer.daemon = True
    timer.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body, {**_credentials(parts.username, parts.password), **headers})
        status = connection.getresponse().status
    except (http.client.HTTPException, AttributeError) as error:  # AttributeError: shut down while connecting
        raise OSError(f"no answer within {deadline:g} s, or not HTTP ({type(error).__name__})") from None
    finally:
        timer.cancel()
        connection.close()
    if not 200 <= status < 300:
        raise OSError(f"HTTP status {status}" + ("; redirects are not followed" if 300 <= status < 400 else ""))


def _shut_down(connection: http.client.HTTPConnection) -> None:
    """Shuts a connection down, which also ends reads that another thread waits for."""
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


def _credentials(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    credentials = f"{unquote(user)}:{unquote(password or '')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(credentials).decode()}"}
