"""Where arrays are that are in no device of torch's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NumpyDevice:
    """The host's memory, as NumPy sees it; stands where torch has a device.

    Attributes:
        type: The kind of device, by torch's names.
    """

    type: str = "cpu"

    def __str__(self) -> str:
        return "numpy"


NUMPY = NumpyDevice()
"""The device of all NumPy arrays: what is made there is an :class:`ssnt.arrays.Array`."""
