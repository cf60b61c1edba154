"""Structured logs: one JSON object a line on standard error.

Whatever comes from a client is a JSON string there, in ASCII, so that it cannot pretend to be another line or steer a
terminal. Texts are not logged.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Any

_LOGGER = logging.getLogger("ssnt.serve")


class JsonLines(logging.Formatter):
    """Formats records as JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= getattr(record, "values", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def start_logging(level: str = "info") -> None:
    """Sends our log and that of the HTTP server to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("ssnt.serve", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [handler], False
        logger.setLevel(level.upper() if name == "ssnt.serve" else "WARNING")  # the others tell of each connection


def log_event(event: str, **values: Any) -> None:
    """Writes a line about something that has happened."""
    _LOGGER.info(event, extra={"values": values})


def log_defect(error: Exception) -> None:
    """Writes a line about an error that should not have been."""
    text = "".join(traceback.format_exception(error))
    _LOGGER.error("defect", extra={"values": {"traceback": text}})
