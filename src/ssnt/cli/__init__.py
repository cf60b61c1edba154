"""The command line: one small file a verb, over one or two calls of the library.

====================  ================================================================================
module                what
====================  ================================================================================
``app``               the table of verbs, and what all of them share: help, errors, exit codes
``errors``            errors as the user meets them
``options``           options that several verbs have, with one name and one meaning
``data_options``      how a data file is laid out, told on the command line
``inputs``            the lines of a file: answered in order, whatever is wrong with some of them
``arriving``          standard input as it arrives
``output``            results on standard output or in a file, tables
``prediction_files``  files of predictions, written and read
``scoring``           predictions beside their references, and scores as the user sees them
``models``            loading a model
``stream_views``      what a stream looks like
others                a verb each
====================  ================================================================================

No module here imports more than Typer and Rich at its top, so that ``ssnt --help`` answers at once.
"""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Runs the command line and exits.

    The exit code is 0 if all went well, 1 if some lines or checks failed, 2 if something was asked for that cannot be
    done (a wrong option, file or setting), 70 for a defect of ssnt, 130 after Ctrl-C, 141 if whoever read the results
    has gone.
    """
    from ssnt.cli.app import run

    run()
