"""What the service counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Measures:
    """The counters of one service; each has its own, so that two in one process do not mix."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "ssnt_requests", "Requests answered.", ["route", "method", "status"], registry=self._registry
        )
        self.latency = Histogram(
            "ssnt_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.queue_length = Gauge("ssnt_queue_length", "Inputs that wait to be worked on.", registry=self._registry)
        self.batch_sizes = Histogram(
            "ssnt_batch_size", "Inputs worked on together.", buckets=_SIZES, registry=self._registry
        )
        self.open_streams = Gauge("ssnt_open_streams", "Streams that are open.", registry=self._registry)
        self.sockets = Gauge("ssnt_open_sockets", "WebSockets that are open.", registry=self._registry)
        self.step_sizes = Histogram(
            "ssnt_stream_step_size", "Streams stepped together.", buckets=_SIZES, registry=self._registry
        )
        self.step_seconds = Histogram(
            "ssnt_stream_step_seconds", "Time of a step of streams.", buckets=_SECONDS, registry=self._registry
        )

    def text(self) -> bytes:
        """All of them, in the text format of Prometheus."""
        return generate_latest(self._registry)
