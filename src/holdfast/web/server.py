"""The server process of `holdfast serve`."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

import uvicorn

from holdfast.errors import HoldfastError
from holdfast.web.app import make_app

HOST = "127.0.0.1"


def serve(directory: Path, port: int) -> None:
    """Serves until it is interrupted."""
    token = secrets.token_urlsafe(24)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
            listening.listen()
        except OSError as error:
            raise HoldfastError(f"port {port} cannot be used: {error}; choose another with --port") from None
        app = make_app(directory, token)
        address = f"http://{HOST}:{listening.getsockname()[1]}/"
        print(f"{directory}: {address}?token={token}", flush=True)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        app.state.is_ending = lambda: server.should_exit
        server.run(sockets=[listening])
