"""`holdfast serve`: pages and a JSON API for one rulebook, on this machine only.

Reading needs no token. Decisions need the token that is printed at start, in a header that no other site can send: the
browser keeps it once the printed address was opened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response
from starlette.middleware.trustedhost import TrustedHostMiddleware

from holdfast.errors import HoldfastError
from holdfast.web.api import add_api
from holdfast.web.application import TOKEN_HEADER, Application
from holdfast.web.pages import add_pages
from holdfast.web.snapshot import Snapshot

__all__ = ["TOKEN_HEADER", "make_app"]

HOSTS = ["127.0.0.1", "localhost"]
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def make_app(directory: Path, token: str, hosts: list[str] | None = None) -> FastAPI:
    """The web application for the rulebook in a directory."""
    snapshot = Snapshot(directory)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        snapshot.follow()
        yield
        snapshot.close()

    app = FastAPI(title="Holdfast", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json", lifespan=life)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts or HOSTS)
    served = Application(snapshot, token)
    app.state.is_ending = bool  # the server sets it, so that open event streams end
    _protect(app, served)
    add_api(app, served)
    add_pages(app, served)
    return app


def _protect(app: FastAPI, served: Application) -> None:
    """Adds security headers, and turns errors into answers."""

    @app.middleware("http")
    async def headers(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await answer(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.exception_handler(HoldfastError)
    async def refused(request: Request, error: HoldfastError) -> Response:
        return await answered(request, HTTPException(422, str(error)))

    @app.exception_handler(HTTPException)
    async def answered(request: Request, error: HTTPException) -> Response:
        if request.url.path.startswith("/api/"):
            return JSONResponse({"detail": error.detail}, error.status_code)
        title = "Not found" if error.status_code == 404 else "Problem"
        page = served.html("problem.html", title=title, text=error.detail)
        page.status_code = error.status_code
        return page
