"""Engines: where independent jobs are done, in processes of this machine or on a Ray cluster.

==========  =====================================================================================
module      what
==========  =====================================================================================
``base``    what a job, a report and an engine are
``local``   :class:`~ssnt.engines.local.LocalEngine`: processes of this machine
``ray``     :class:`~ssnt.engines.ray.RayEngine`: the same processes, wherever a Ray cluster has room
``crew``    what both have in common: workers that take one job after another
``worker``  the process that does the jobs, ``python -m ssnt.engines.worker``
==========  =====================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ssnt.errors import ConfigError

if TYPE_CHECKING:
    from ssnt.engines.base import Engine

EngineName = Literal["local", "ray"]
"""Where jobs are done."""


def make_engine(name: EngineName, *, address: str | None = None, workers: int | None = None) -> Engine:
    """Returns an engine by its name.

    Args:
        name: ``local``: processes of this machine; ``ray``: a Ray cluster.
        address: Where the cluster is; None: one is started on this machine.
        workers: How many jobs are done at a time; None: one for each core.

    Raises:
        ConfigError: Ray is not installed, or an address is given for the local engine.
    """
    if name == "ray":
        from ssnt.engines.ray import RayEngine

        return RayEngine(address, workers)
    if address is not None:
        raise ConfigError(
            f"the address of a Ray cluster ({address!r}) is of use to the engine 'ray' only, got {name!r}; give "
            "--engine ray (hardware.engine), or leave the address out"
        )
    from ssnt.engines.local import LocalEngine

    return LocalEngine(workers)


__all__ = ["EngineName", "make_engine"]
