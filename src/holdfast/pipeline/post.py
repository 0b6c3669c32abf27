"""One HTTP POST: to the address that was given and nowhere else, within a time that the other side cannot stretch."""

from __future__ import annotations

import base64
import http.client
import socket
import threading
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

DEADLINE = 10.0  # seconds for all of it, however slowly the answer comes


def post(url: str, headers: Mapping[str, str], body: bytes, deadline: float = DEADLINE) -> None:
    """Posts; OSError unless the answer is a success. A redirect is not followed, so that headers reach nobody else."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise OSError("only http:// and https:// addresses are posted to")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=deadline)
    watch = threading.Timer(deadline, _cut, [connection])
    watch.daemon = True
    watch.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body, {**_credentials(parts.username, parts.password), **headers})
        status = connection.getresponse().status
    except (http.client.HTTPException, AttributeError) as error:  # AttributeError: it was cut while connecting
        raise OSError(f"no answer within {deadline:g} s, or not HTTP ({type(error).__name__})") from None
    finally:
        watch.cancel()
        connection.close()
    if not 200 <= status < 300:
        raise OSError(f"HTTP status {status}" + ("; redirects are not followed" if 300 <= status < 400 else ""))


def _cut(connection: http.client.HTTPConnection) -> None:
    """Ends a connection, whatever it waits for."""
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


def _credentials(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    both = f"{unquote(user)}:{unquote(password or '')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(both).decode()}"}
