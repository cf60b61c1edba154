"""Lightning without its banners, tips and advice, which are for those who write training programs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("lightning", "lightning.pytorch", "lightning.fabric", "lightning.pytorch.utilities.rank_zero")


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """In this block Lightning says nothing but errors."""
    from lightning.fabric.utilities.rank_zero import LightningDeprecationWarning
    from lightning.fabric.utilities.warnings import PossibleUserWarning

    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for category in (PossibleUserWarning, LightningDeprecationWarning):
                warnings.filterwarnings("ignore", category=category)
            warnings.filterwarnings("ignore", module=r"lightning(\..*)?$")
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
