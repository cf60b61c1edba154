"""What the service allows, and how it is reached."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field, fields
from urllib.parse import urlsplit

from ssnt.errors import ConfigError

_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True)
class Limits:
    """What one client may ask for, and all of them together; everything beyond is refused with a reason.

    Attributes:
        max_body_bytes: Size of a request's body, and of a message on a socket.
        max_inputs: Inputs or pairs in a request.
        max_text_length: Characters of a text.
        max_tags: Tags of an input.
        max_tag_length: Characters of a tag.
        max_beam: Widest beam.
        max_nbest: Most outputs for an input.
        max_output_length: Longest output in symbols that may be asked for.
        max_queue: Inputs that wait to be worked on, of all requests.
        max_connections: Open connections.
        max_streams: Open sockets for streams.
        max_stream_length: Characters that one stream may read.
        max_lattice_cells: Source symbols times target symbols for which a stream sends its lattice.
        max_posterior_cells: Source symbols times target symbols, of all outputs of a request, for which posteriors are
            given.
        headers_seconds: How long a client may take to send the head of a request.
        body_seconds: How long it may take to send the body.
        queue_seconds: How long an input may wait to be worked on.
        open_seconds: How long a socket may take to open its first stream.
        idle_seconds: How long a socket may say nothing.
        send_seconds: How long a client may take to read an answer.
        keep_alive_seconds: How long a connection is kept for the next request.
    """

    max_body_bytes: int = 1_000_000
    max_inputs: int = 256
    max_text_length: int = 500
    max_tags: int = 64
    max_tag_length: int = 200
    max_beam: int = 32
    max_nbest: int = 32
    max_output_length: int = 2_000
    max_queue: int = 4_096
    max_connections: int = 2_000
    max_streams: int = 1_000
    max_stream_length: int = 100_000
    max_lattice_cells: int = 10_000
    max_posterior_cells: int = 1_000_000
    headers_seconds: float = 20.0
    body_seconds: float = 20.0
    queue_seconds: float = 60.0
    open_seconds: float = 20.0
    idle_seconds: float = 300.0
    send_seconds: float = 30.0
    keep_alive_seconds: float = 75.0

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                raise ConfigError(f"{one.name} must be more than 0, got {getattr(self, one.name)}")


@dataclass(frozen=True)
class ServeSettings:
    """How the service works.

    Attributes:
        limits: What it allows.
        window_ms: How long the first input of a batch waits for others, in milliseconds.
        max_batch: How many inputs are worked on together, at most; 1 is no batching.
        token: What clients must send as ``Authorization: Bearer TOKEN``; None: nothing.
        cors_origins: Origins whose pages may use the service, like ``https://example.org``, or ``*`` for all; none by
            default.
        host_names: Names that the service may be asked for by, besides addresses; none: any. :func:`serve` adds
            those of this machine if only this machine can connect, and there is no token.
        drain_seconds: How long the service waits for its clients when it is told to stop.
    """

    limits: Limits = field(default_factory=Limits)
    window_ms: float = 3.0
    max_batch: int = 64
    token: str | None = field(default=None, repr=False)
    cors_origins: tuple[str, ...] = ()
    host_names: tuple[str, ...] = ()
    drain_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.window_ms < 0:
            raise ConfigError(f"window_ms must be at least 0, got {self.window_ms}")
        if self.max_batch < 1:
            raise ConfigError(f"max_batch must be at least 1, got {self.max_batch}")
        if self.drain_seconds <= 0:
            raise ConfigError(f"drain_seconds must be more than 0, got {self.drain_seconds}")
        if self.token is not None and (not self.token or not self.token.isascii() or not self.token.isprintable()):
            raise ConfigError("token must be printable ASCII text and not empty; HTTP headers hold nothing else")
        if self.token is not None and self.token != self.token.strip():
            raise ConfigError("token must not begin or end with a space: HTTP drops it")
        for origin in self.cors_origins:
            if origin != "*" and not _is_origin(origin):
                raise ConfigError(
                    f"cors_origins: expected SCHEME://HOST or SCHEME://HOST:PORT as browsers send it, got {origin!r}"
                )
        for name in self.host_names:
            if not _HOST_NAME.fullmatch(name):
                raise ConfigError(
                    f"host_names: expected a name as browsers send it, in small letters, without a port or a dot at "
                    f"its end (xn-- for other scripts; there is no *), got {name!r}"
                )


def address_of(host: str, port: int) -> str:
    """What a browser calls a service that listens there; an IPv6 address stands in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_ip_address(text: str) -> bool:
    """Whether this is an address, and no name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_origin(text: str) -> bool:
    """Whether a browser could send this as the origin of a page: no path, no slash at the end, all in small letters."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.hostname) and text == f"{parts.scheme}://{parts.netloc}".lower()
