"""The service's routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

import pydantic
from fastapi import FastAPI, Request
from pydantic_core import to_json
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.websockets import WebSocket

from ssnt.__about__ import __version__
from ssnt.decode.align import LINK_THRESHOLD
from ssnt.pipeline.settings import plan_search
from ssnt.serve import answers
from ssnt.serve.batching import Batcher, Kind
from ssnt.serve.guard import Guard
from ssnt.serve.measures import Measures
from ssnt.serve.models import Models, ServedModel
from ssnt.serve.openapi import describe
from ssnt.serve.problems import ProblemError, tell_problems
from ssnt.serve.reference import reference_page
from ssnt.serve.schemas import AlignRequest, Input, Pair, ScoreRequest, TransduceRequest, parse
from ssnt.serve.settings import ServeSettings, address_of
from ssnt.serve.sockets import Sockets
from ssnt.serve.streams import StreamPools
from ssnt.types import Example

SentT = TypeVar("SentT")

_TRANSDUCE = pydantic.TypeAdapter(TransduceRequest)
_ALIGN = pydantic.TypeAdapter(AlignRequest)
_SCORE = pydantic.TypeAdapter(ScoreRequest)
_SEARCH = ("search", "beam", "nbest", "length_normalisation", "max_length", "end", "copy_unknown")
_NO_TAGS = "the model was trained with tags: give those of every input, or [] if it has none"
_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


class _Given(NamedTuple):
    """What a client has given to be worked on.

    Attributes:
        source: The input.
        target: Its output, where that is given.
        tags: Its tags; None if it was given without, which is not the same as having none.
        work: How much work it is, in symbols.
    """

    source: str
    target: str | None
    tags: Sequence[str] | None
    work: int

    @property
    def example(self) -> Example:
        """The same as the library takes it."""
        return Example(self.source, self.target, tuple(self.tags or ()))


class Service:
    """What the routes work with.

    Args:
        models: The models.
        settings: How to serve them.
    """

    def __init__(self, models: Iterable[ServedModel], settings: ServeSettings) -> None:
        self.models = Models(models)
        self.settings = settings
        self.measures = Measures()
        limits = settings.limits
        self.batcher = Batcher(
            window=settings.window_ms / 1000 if settings.max_batch > 1 else 0.0,
            max_batch=settings.max_batch,
            max_queue=limits.max_queue,
            patience=limits.queue_seconds,
            measures=self.measures,
        )
        self.pools = StreamPools(limits.max_lattice_cells, self.measures)
        self.sockets = Sockets(self.models, self.pools, settings, self.measures)
        self.is_ready = False

    async def read(self, kind: pydantic.TypeAdapter[SentT], request: Request) -> SentT:
        """What a client has sent.

        Raises:
            ProblemError: It is not JSON, or not what was expected.
        """
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise ProblemError(415, "send the body as JSON: Content-Type: application/json")
        return parse(kind, await request.body(), self.settings.limits)

    async def transduce(self, asked: TransduceRequest) -> dict[str, Any]:
        """Answers ``/v1/transduce``."""
        model = self.models.find(asked.model)
        transducer = model.transducer
        settings = {name: getattr(asked, name) for name in _SEARCH if getattr(asked, name) is not None}
        plan = plan_search(transducer.config, **settings)  # refuses what does not fit together

        def run(examples: Sequence[Example]) -> list[dict[str, Any]]:
            found = transducer.transduce_each(examples, **settings)
            return [answers.transduced(one, alignments=asked.alignments, posteriors=asked.posteriors) for one in found]

        key = ("transduce", model.name, asked.alignments, asked.posteriors, *settings.items())
        kind = Kind(key, run, weight=plan.options.beam / 10)
        inputs = [Input(text=one, tags=None) if isinstance(one, str) else one for one in asked.inputs]
        lengths = [len(one.text) for one in inputs]
        if asked.posteriors:  # outputs are about as long as inputs, unless longer ones are asked for
            longest = asked.max_length or 0
            cells = sum((length + 1) * (max(length, longest) + 1) for length in lengths)
            self._check_cells("inputs or nbest, or a smaller max_length", asked.nbest * cells)
        # A search rarely goes on to the longest output that it may write, but it can.
        least = (asked.max_length or 0) // 8
        given = [_Given(one.text, None, one.tags, max(len(one.text), least)) for one in inputs]
        return await self._answer(model, kind, "inputs", given)

    async def align(self, asked: AlignRequest) -> dict[str, Any]:
        """Answers ``/v1/align``."""
        model = self.models.find(asked.model)
        transducer = model.transducer
        threshold = LINK_THRESHOLD if asked.link_threshold is None else asked.link_threshold
        if asked.posteriors:
            self._check_cells("pairs", sum((len(one.input) + 1) * (len(one.output) + 1) for one in asked.pairs))

        def run(examples: Sequence[Example]) -> list[dict[str, Any]]:
            found = transducer.align_each(examples, link_threshold=threshold)
            return [answers.aligned(one, posteriors=asked.posteriors) for one in found]

        kind = Kind(("align", model.name, threshold, asked.posteriors), run)
        return await self._answer(model, kind, "pairs", _given(asked.pairs))

    async def score(self, asked: ScoreRequest) -> dict[str, Any]:
        """Answers ``/v1/score``."""
        model = self.models.find(asked.model)
        kind = Kind(
            ("score", model.name),
            lambda examples: [answers.scored(one) for one in model.transducer.score_each(examples)],
        )
        return await self._answer(model, kind, "pairs", _given(asked.pairs))

    async def _answer(self, model: ServedModel, kind: Kind, name: str, given: Sequence[_Given]) -> dict[str, Any]:
        """An answer with a result for each input, if there is any.

        Raises:
            ProblemError: No input can be used.
        """
        wants_tags = model.transducer.has_tags
        usable = [one for one in given if one.tags is not None or not wants_tags]
        found = iter(await self.batcher.submit(kind, [one.example for one in usable], [one.work for one in usable]))
        results = [{"error": _NO_TAGS} if wants_tags and one.tags is None else next(found) for one in given]
        if all("error" in one for one in results):
            errors = [{"where": f"{name}[{k}]", "problem": one["error"]} for k, one in enumerate(results[:20])]
            raise ProblemError(422, f"{errors[0]['where']}: {errors[0]['problem']}", errors=errors)
        return {"model": model.name, "results": results}

    def _check_cells(self, what: str, cells: int) -> None:
        most = self.settings.limits.max_posterior_cells
        if cells > most:
            raise ProblemError(
                422,
                f"posteriors: their matrices would have more than max_posterior_cells ({most}); ask for fewer {what}",
            )

    def about(self) -> dict[str, Any]:
        """Answers ``/v1/models``."""
        names = (
            "max_inputs",
            "max_text_length",
            "max_beam",
            "max_nbest",
            "max_stream_length",
            "max_lattice_cells",
            "max_posterior_cells",
            "max_body_bytes",
        )
        limits = {name: getattr(self.settings.limits, name) for name in names}
        return {"models": [one.info() for one in self.models], "limits": limits}


def _given(pairs: Sequence[Pair]) -> list[_Given]:
    return [_Given(one.input, one.output, one.tags, max(len(one.input), len(one.output))) for one in pairs]


def _json(value: Any) -> Response:
    return Response(to_json(value, inf_nan_mode="null"), media_type="application/json")


def make_app(models: Iterable[ServedModel], settings: ServeSettings | None = None) -> FastAPI:
    """The service as an ASGI app.

    Args:
        models: The models.
        settings: How to serve them.

    Raises:
        ConfigError: There is no model, or two have the same name.
    """
    settings = settings or ServeSettings()
    service = Service(models, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        service.is_ready = True
        yield
        service.is_ready = False
        await service.batcher.stop()
        service.pools.stop()

    app = FastAPI(title="ssnt", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.service = service
    tell_problems(app)
    _add_work(app, service)
    _add_state(app, service)
    _add_page(app)
    describe(app, settings, [one.name for one in service.models])
    app.add_middleware(Guard, settings=settings, measures=service.measures, is_draining=lambda: not service.is_ready)
    if settings.cors_origins:  # outside, or pages elsewhere could not see why they are refused
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    return app


def _add_work(app: FastAPI, service: Service) -> None:
    @app.post("/v1/transduce")
    async def transduce(request: Request) -> Response:
        """The best outputs for each input, with exact probabilities and alignments."""
        return _json(await service.transduce(await service.read(_TRANSDUCE, request)))

    @app.post("/v1/align")
    async def align(request: Request) -> Response:
        """Which part of an input wrote which part of an output, exactly."""
        return _json(await service.align(await service.read(_ALIGN, request)))

    @app.post("/v1/score")
    async def score(request: Request) -> Response:
        """How probable given outputs are, summed over all alignments."""
        return _json(await service.score(await service.read(_SCORE, request)))

    @app.websocket("/v1/stream")
    async def stream(socket: WebSocket) -> None:
        await service.sockets.serve(socket)


def _add_state(app: FastAPI, service: Service) -> None:
    @app.get("/v1/models")
    async def models() -> Response:
        """The models that are served, and what may be asked of them."""
        return _json(service.about())

    @app.get("/healthz")
    async def health() -> Response:
        """Whether the process is alive."""
        return _json({"status": "ok"})

    @app.get("/readyz")
    async def ready() -> Response:
        """Whether requests are welcome: not before the models are loaded, and not while the service stops."""
        if not service.is_ready:
            raise ProblemError(503, "the service is stopping")
        return _json({"status": "ready"})

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counts and times, for Prometheus."""
        return Response(service.measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_page(app: FastAPI) -> None:
    """The page's files, all read once: nothing that a client sends ever becomes a path."""
    folder = files("ssnt.serve") / "page"
    pages = {one.name: one.read_bytes() for one in folder.iterdir() if one.name.rpartition(".")[2] in _MEDIA_TYPES}

    def page(name: str) -> Response:
        if name not in pages:
            raise ProblemError(404, "there is no such page")
        return Response(pages[name], media_type=_MEDIA_TYPES[name.rpartition(".")[2]])

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page("index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        return page(name)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        host, port = request.scope.get("server") or ("127.0.0.1", 8000)  # our own address, not what a client says it is
        return Response(reference_page(app.openapi(), address_of(host, port)), media_type=_MEDIA_TYPES["html"])
