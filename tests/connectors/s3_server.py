"""An S3 server on loopback (moto), and a network before it that can lose what concerns manifests."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any


class Fate(Enum):
    """What becomes of a request."""

    ANSWERED = "answered"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"


def answered(_: str) -> Fate:
    return Fate.ANSWERED


class S3Server:
    """`fate` says what becomes of a request about a manifest, by its method. It may wait."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._store = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=MotoRequestHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.port}"
        self.fate: Callable[[str], Fate] = answered

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()

    def _serve(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        about = environ["PATH_INFO"] + environ["QUERY_STRING"]
        fate = self.fate(environ["REQUEST_METHOD"]) if "manifests" in about else Fate.ANSWERED
        if fate is Fate.ANSWERED:
            return self._store(environ, start)
        if fate is Fate.ANSWER_LOST:
            list(self._store(environ, lambda *_: None))
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        raise ConnectionAbortedError(fate.value)
