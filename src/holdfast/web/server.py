"""The web server of `holdfast serve`."""

from __future__ import annotations

import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from holdfast.errors import HoldfastError
from holdfast.web.app import make_app

HOST = "127.0.0.1"


def serve(directory: Path, port: int) -> None:
    """Serves a rulebook until Ctrl-C."""
    token = secrets.token_urlsafe(24)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
            listening.listen()
        except OSError as error:
            raise HoldfastError(f"port {port} cannot be used: {error}; choose another with --port") from None
        app = make_app(directory, token)
        server = _Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        app.state.is_ending = lambda: server.should_exit
        with _ended_by_ctrl_c(server):
            address = f"http://{HOST}:{listening.getsockname()[1]}/"
            print(f"{directory}: {address}?token={token}", flush=True)
            server.run(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that shuts down once, however often Ctrl-C is pressed. That takes two seconds at most; uvicorn's forced
    exit would cancel the shutdown in the middle and print a traceback."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            super().handle_exit(sig, frame)


@contextmanager
def _ended_by_ctrl_c(server: uvicorn.Server) -> Iterator[None]:
    """Makes Ctrl-C end the server, even while it starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, server.handle_exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)  # None: not set from Python
    if server.should_exit:
        raise KeyboardInterrupt
