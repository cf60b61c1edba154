"""Running the service."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import resource
import socket
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import FrameType

import uvicorn

from ssnt.errors import ConfigError
from ssnt.serve.app import make_app
from ssnt.serve.logs import log_event, start_logging
from ssnt.serve.memory import keep_few_shapes
from ssnt.serve.models import ServedModel
from ssnt.serve.protocol import limited_protocol, limited_socket
from ssnt.serve.settings import ServeSettings, address_of, is_ip_address


class _Server(uvicorn.Server):
    """A server that says so when it stops, and tells the app at once."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None], started: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping, self._started = stopping, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # a server that stops when told to has not failed: it ends with exit code 0

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        for _ in range(3):  # clients that the kernel has connected already are let in before the door is closed
            await asyncio.sleep(0)
        await super().shutdown(sockets)


def serve(
    models: Iterable[ServedModel],
    settings: ServeSettings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Serves models until the process is told to stop (SIGTERM or Ctrl-C); what was accepted is answered first.

    Args:
        models: The models.
        settings: How to serve them.
        host: The address to listen at; by default only this machine can connect.
        port: The port; 0 for any that is free.
        on_start: Called with the address once requests are welcome.

    Raises:
        ConfigError: The address cannot be listened at.
    """
    settings = _with_own_names(settings or ServeSettings(), host)
    limits = settings.limits
    keep_few_shapes()
    app = make_app(models, settings)
    listening = _listen(host, port)
    _allow_many_files(limits.max_connections + limits.max_streams)
    start_logging()
    address = address_of(host, listening.getsockname()[1])
    config = uvicorn.Config(
        app,
        http=limited_protocol(limits),
        ws=limited_socket(limits),
        ws_max_size=limits.max_body_bytes,
        ws_max_queue=4,
        ws_per_message_deflate=False,  # messages are small, and it takes memory for every socket
        timeout_keep_alive=math.ceil(limits.keep_alive_seconds),
        timeout_graceful_shutdown=math.ceil(settings.drain_seconds),
        access_log=False,
        log_config=None,
        server_header=False,
    )

    def started() -> None:
        names = [one.name for one in app.state.service.models]
        log_event("started", address=address, models=names)
        if on_start is not None:
            on_start(address)

    def stopping() -> None:
        app.state.service.is_ready = False
        log_event("stopping")

    with listening:
        _Server(config, stopping, started).run(sockets=[listening])
    log_event("stopped")


def check_address(host: str, port: int) -> None:
    """Refuses an address that cannot be listened at, before anything long is done.

    Raises:
        ConfigError: It cannot.
    """
    _listen(host, port).close()


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address, or to what a name means."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


def _with_own_names(settings: ServeSettings, host: str) -> ServeSettings:
    """The settings with the names of this machine, if names matter: some are given, or being here is all it takes."""
    if not settings.host_names and (settings.token is not None or not is_loopback(host)):
        return settings
    own = ("localhost",) if is_ip_address(host) or not host else ("localhost", host.lower())
    return replace(settings, host_names=(*own, *settings.host_names))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot listen at {host} port {port}: {reason}; choose another --host or --port") from None
    return listening


def _allow_many_files(count: int) -> None:
    """Each connection is a file; the usual limit is low, and may be raised up to a higher one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 200 if hard == resource.RLIM_INFINITY else min(count + 200, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
