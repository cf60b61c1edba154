"""A model as a service: HTTP, WebSocket and a page.

==============  =====================================================================================================
module          what
==============  =====================================================================================================
``run``         :func:`serve`: the server, from the first connection to the last
``app``         :func:`make_app`: the routes
``models``      the models, by their names
``settings``    what is allowed
``schemas``     what clients send and get, checked
``openapi``     the same as a description for tools
``reference``   the same as a page
``answers``     results as JSON
``batching``    inputs that arrive together are worked on together
``streams``     streams are stepped together
``sockets``     one client's conversation with a stream
``lattice``     the lattice of a stream, live
``guard``       what every request passes: limits, token, headers, logs
``protocol``    connections: limits, and a stop that loses nothing
``problems``    what goes wrong, as clients are told
``measures``    what is counted
``logs``        what is logged
``memory``      memory that would grow with what clients send
``page/``       the page, as it is sent to the browser
==============  =====================================================================================================
"""

from ssnt.serve.app import make_app
from ssnt.serve.memory import keep_few_shapes
from ssnt.serve.models import ServedModel, WorkedExample
from ssnt.serve.run import check_address, is_loopback, serve
from ssnt.serve.settings import Limits, ServeSettings

__all__ = [
    "Limits",
    "ServeSettings",
    "ServedModel",
    "WorkedExample",
    "check_address",
    "is_loopback",
    "keep_few_shapes",
    "make_app",
    "serve",
]
