"""``ssnt serve``."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from ssnt.cli.errors import tell
from ssnt.cli.models import load_transducer
from ssnt.cli.options import DeviceOption, PortOption
from ssnt.errors import ConfigError

if TYPE_CHECKING:
    from ssnt.serve import ServedModel


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="Model directories, or names on the hub; NAME=MODEL names one, A,B is an ensemble."
        ),
    ],
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: PortOption = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", envvar="SSNT_TOKEN", metavar="TOKEN", help="What clients must send.", show_default=False
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option("--cors-origin", metavar="ORIGIN", help="A site whose pages may use it.", show_default=False),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="A further name that it may be asked for by.", show_default=False
        ),
    ] = None,
    window: Annotated[
        float, typer.Option("--window", min=0.0, metavar="MS", help="How long an input waits for others.")
    ] = 3.0,
    max_batch: Annotated[
        int, typer.Option("--max-batch", min=1, metavar="N", help="Inputs worked on together; 1: no batching.")
    ] = 64,
    max_streams: Annotated[int, typer.Option("--max-streams", min=1, metavar="N", help="Open streams.")] = 1000,
    max_text_length: Annotated[
        int, typer.Option("--max-text-length", min=1, metavar="N", help="Characters of a text.")
    ] = 500,
    max_inputs: Annotated[int, typer.Option("--max-inputs", min=1, metavar="N", help="Inputs in a request.")] = 256,
    max_beam: Annotated[int, typer.Option("--max-beam", min=1, metavar="N", help="Widest beam.")] = 32,
    device: DeviceOption = "cpu",
) -> None:
    """Serve models over HTTP and WebSocket, with a page to try them on.

    The page is at the address itself, the description of the interface at /docs and /openapi.json. Only this machine
    can connect unless --host says otherwise. SIGTERM or Ctrl-C stops it when all that it accepted is answered. The log,
    a JSON object a line, goes to standard error.

    Examples:
        ssnt serve model
        ssnt serve verbs=model nouns=other --port 9000
        SSNT_TOKEN=secret ssnt serve model --host 0.0.0.0
    """
    require_serving()
    from ssnt.serve import Limits, ServeSettings, check_address, is_loopback
    from ssnt.serve import serve as run

    limits = Limits(max_streams=max_streams, max_text_length=max_text_length, max_inputs=max_inputs, max_beam=max_beam)
    settings = ServeSettings(
        limits,
        window_ms=window,
        max_batch=max_batch,
        token=token,
        cors_origins=tuple(cors_origin or ()),
        host_names=tuple(allow_host or ()),
    )
    check_address(host, port)
    if token is None and not is_loopback(host):
        tell(f"anyone who can reach {host} can use the service; --token asks for a secret", "warning")
    served = [_load(one, device) for one in models]
    run(served, settings, host=host, port=port, on_start=say_where)


def require_serving() -> None:
    """Refuses to serve without what that needs.

    Raises:
        ConfigError: Something is not installed; the message says how to install it.
    """
    missing = [name for name in ("fastapi", "prometheus_client", "uvicorn") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"serving needs {', '.join(missing)}, not installed here; run pip install 'ssnt[serve]'")


def say_where(address: str) -> None:
    """Tells where the service is, once it is there."""
    typer.echo(f"Serving at {address}  (Ctrl-C stops)")


def _load(model: str, device: str) -> ServedModel:
    from ssnt.serve import ServedModel

    name, equals, place = model.partition("=")
    if not equals or os.path.exists(model):
        name, place = os.path.basename(os.path.abspath(model)) if os.path.exists(model) else model, model
    if not name or not name.isprintable():
        raise ConfigError(f"models: expected NAME=MODEL with a name that can be printed, got {model!r}")
    return ServedModel(name, load_transducer(place, device))
