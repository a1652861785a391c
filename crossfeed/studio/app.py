"""The application: what stands under which address. Handlers only hand over; the work is in the other files."""

import asyncio
import base64
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request, UploadFile, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocketDisconnect

from crossfeed.errors import CrossfeedError, need
from crossfeed.files import __version__, plain
from crossfeed.studio.gate import ENTER, Bounds, Gate
from crossfeed.studio.model_facts import model_facts, recorded_verdict, runs_content
from crossfeed.studio.moments import live_content
from crossfeed.studio.queues import CachedAnswer
from crossfeed.studio.requests import (
    ForecastRequest,
    RefusalError,
    WhatIfRequest,
    error_content,
    status_of,
    validation_error,
)
from crossfeed.studio.service import Service
from crossfeed.studio.settings import cookie_name

_PAGE = Path(__file__).parent / "page"
_KINDS = (".html", ".js", ".css", ".svg")
PLOTLY = "/page/plotly.min.js"
_MAP_STYLE = re.compile(rb"textContent='(\.maplibregl-map\{[^']*)'")
Result = TypeVar("Result")
_ENTERED = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>crossfeed studio</title>'
    '<link rel="icon" href="/page/icon.svg"><meta http-equiv="refresh" content="0;url=/"></html>'
)


def page_files() -> dict[str, Path]:
    """What is served, by its address."""
    files = {f"/page/{path.name}": path for path in sorted(_PAGE.iterdir()) if path.suffix in _KINDS}
    return {"/": files.pop("/page/index.html"), "/docs": files.pop("/page/docs.html"), PLOTLY: _plotly(), **files}


def _plotly() -> Path:
    """The plotly.js that the plotly package carries."""
    return Path(need("plotly", "The studio's page", "serve").__file__).parent / "package_data" / "plotly.min.js"


def map_style(plotly: bytes) -> str:
    """How a strict policy names the one style that plotly.js writes when it is loaded; it is for maps."""
    style = _MAP_STYLE.search(plotly)
    if style is None:
        return ""
    return f" 'sha256-{base64.b64encode(hashlib.sha256(style[1]).digest()).decode()}'"


def build_app(service: Service) -> Gate:
    """The whole service as one ASGI application behind its gate."""
    settings, engine, keys = service.settings, service.engine, service.keys

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="crossfeed",
        version=__version__,
        description="What will the machine do if I command this? Physical units, channels by name. Errors have three "
        "parts: found, expected, remedy. Every request needs 'Authorization: Bearer TOKEN'.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    files = page_files()
    recorded_once = CachedAnswer(lambda: recorded_verdict(service.opened), 60.0)
    runs_now = CachedAnswer(lambda: runs_content(service.folders), 2.0)
    gate: Gate

    @app.exception_handler(CrossfeedError)
    async def _told(_: Request, error: CrossfeedError) -> JSONResponse:
        status = status_of(error)
        headers = {"retry-after": "1"} if status == 503 else None
        return JSONResponse(error_content(error), status, headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(error_content(validation_error(list(error.errors()))), 422)

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> JSONResponse:
        refusal = CrossfeedError(f"{error.detail}.", expected="an address and a method of /docs")
        return JSONResponse(error_content(refusal), error.status_code)

    @app.get("/healthz", tags=["service"], summary="Does the service run?")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics", tags=["service"], summary="Counters in the text format of Prometheus")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/api/model", tags=["model"], summary="What the model is")
    async def model() -> dict[str, Any]:
        return model_facts(engine.opened, settings.limits)

    @app.get("/api/sessions", tags=["model"], summary="Moments that can be named")
    async def sessions() -> dict[str, Any]:
        named = [] if service.table is None else service.table.sessions()
        return {"sessions": named, "live": service.shown_machine is not None}

    @app.post("/api/forecast", tags=["model"], summary="Forecast at the trained horizons, under one plan or several")
    async def forecast(asked: ForecastRequest, request: Request) -> dict[str, Any]:
        history, questions = await asyncio.to_thread(engine.questions, asked)

        async def all_answers() -> list[dict[str, Any]]:
            return await asyncio.gather(*(service.batcher.ask(question) for question in questions))

        within = asyncio.wait_for(all_answers(), settings.limits.answer_seconds)
        return engine.forecast_content(history, questions, await _while_connected(request, within))

    @app.post("/api/what-if", tags=["model"], summary="Plans rolled forward and compared: time, energy, peaks, limits")
    async def what_if(asked: WhatIfRequest, request: Request) -> dict[str, Any]:
        return await _while_connected(request, service.long_work.do(lambda go_on: engine.compare(asked, go_on)))

    @app.post("/api/programs", tags=["model"], summary="Upload an NC program, or a CSV with commands", status_code=201)
    async def programs(file: UploadFile, request: Request) -> dict[str, Any]:
        content = await file.read()
        name = file.filename or "program"
        kept = await _while_connected(request, service.long_work.do(lambda _: service.uploads.read(name, content)))
        service.uploads.put(kept)
        return kept.content()

    @app.get("/api/live", tags=["live"], summary="The newest moment beside the machine")
    async def live() -> dict[str, Any]:
        if service.shown_machine is None:
            raise RefusalError(404, "Nothing runs beside this service.", remedy="Start it with --live or --history.")
        return live_content(service.shown_machine.snapshot())

    @app.get("/api/trust", tags=["live"], summary="The channel verdict, and calibration so far")
    async def trust() -> dict[str, Any]:
        recorded = await recorded_once.get()
        shown_machine = service.shown_machine
        now = None if shown_machine is None else shown_machine.snapshot()
        return {
            "recorded": recorded,
            "so_far": {} if shown_machine is None else shown_machine.calibration(),
            "lights": {} if now is None else plain(now.lights),
            "verdict": None if now is None else plain(now.verdict),
        }

    @app.get("/api/runs", tags=["research"], summary="Studies, comparisons and trainings with their progress")
    async def runs() -> dict[str, Any]:
        return await runs_now.get()

    @app.post("/api/link", tags=["service"], summary="A link that lets one more browser in, once", status_code=201)
    async def link() -> dict[str, str]:
        return {"link": gate.link()}

    @app.get(ENTER + "{code}", include_in_schema=False)
    async def enter(code: str) -> HTMLResponse:
        cookie = keys.enter(code)
        if cookie is None:
            raise RefusalError(
                401,
                "This link was used before, or never given.",
                expected="a fresh link",
                remedy="A browser that is in makes another under 'Another device'; else start crossfeed serve again.",
            )
        answer = HTMLResponse(_ENTERED)
        answer.set_cookie(cookie_name(gate.port), cookie, httponly=True, samesite="strict", secure=settings.secure)
        return answer

    @app.websocket("/api/stream")
    async def stream(socket: WebSocket) -> None:
        await _stream(service, socket)

    for path, file in files.items():
        app.add_api_route(path, _served(path, file), methods=["GET"], include_in_schema=False)
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=6)

    bounded = Bounds(app, settings.limits, service.metrics)
    gate = Gate(bounded, settings, keys, service.metrics, map_style(files[PLOTLY].read_bytes()))
    return gate


def _served(path: str, file: Path) -> Callable[[Request], Awaitable[Response]]:
    """A handler that gives one file; only plotly.js is kept by a browser without asking again."""
    folder = StaticFiles(directory=file.parent)

    async def served(request: Request) -> Response:
        answer = await folder.get_response(file.name, request.scope)
        answer.headers["cache-control"] = "private, max-age=86400" if path == PLOTLY else "no-cache"
        return answer

    return served


async def _while_connected(request: Request, work: Awaitable[Result]) -> Result:
    """The result of the work, which is cancelled as soon as the client is gone."""
    task = asyncio.ensure_future(work)

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.ensure_future(gone())
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise RefusalError(499, "The client left before the answer.")
    except TimeoutError:
        raise RefusalError(504, "The answer took too long and was given up.", remedy="Ask for less at once.") from None
    finally:
        for waiting in (task, leaving):
            if not waiting.done():
                waiting.cancel()


async def _stream(service: Service, socket: WebSocket) -> None:
    """Every new moment to one listener; whatever the listener says is read and thrown away."""
    if service.shown_machine is None or service.streams >= service.settings.limits.streams:
        reason = "nothing runs beside this service" if service.shown_machine is None else "too many streams"
        await socket.close(1013, reason)
        return
    await socket.accept()
    service.streams += 1

    async def listen() -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, KeyError):
            while True:
                await socket.receive_text()

    async def tell() -> None:
        assert service.shown_machine is not None
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            async for snapshot in service.shown_machine.updates():
                await socket.send_json(live_content(snapshot))

    tasks = {asyncio.create_task(listen()), asyncio.create_task(tell())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        service.streams -= 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await socket.close()
