"""New processes that are there at once: forked from one that has imported what is slow to import.

A process that trains or predicts spends some seconds on importing PyTorch, Lightning and the like, and the tests start
hundreds. Here one process, the server, imports these once. ``ForkServer.bin`` has two small programs, the clients:
``ssnt`` and ``quick-python``. A client asks the server for a process. The server forks, and the fork becomes what was
asked for: it takes over the client's arguments, directory, environment and standard streams, and runs the ``ssnt`` that
pip has installed, or ``python -m MODULE`` or ``python -c CODE``. The client passes signals on and ends with its exit
code, so that whoever has started it cannot tell the difference. If it is killed, so is the fork, a moment later.

What does differ: packages of others are imported already, and there is one thread. The server never imports ``ssnt``
itself, so each process still imports all of ours. A client that cannot be served well starts a real process instead:
one with other options of Python, or with variables that are read before the server could know them, see ``_EARLY``.

A fork has only the thread that forked; locks and pools of others would hang in it. So the server looks, before it
serves, that no import has started a thread.

``SSNT_FORK_SERVER=0`` in the environment gives real processes everywhere. So do systems other than Linux, on which a
fork after such imports is not sound.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

# Nothing else here, as a client would have to wait for it.

PACKAGES = (
    "fastapi",
    "lightning",
    "matplotlib.pyplot",
    "numba",
    "optuna",
    "pydantic.fields",
    "pydantic.main",
    "pydantic.type_adapter",
    "pydantic.types",
    "rapidfuzz.distance",
    "regex",
    "rich.console",
    "safetensors.torch",
    "tokenizers",
    "torch",
    "typer",
    "uvicorn",
    "yaml",
)
"""What takes time to import and is not ours. One that is missing here only makes processes slower."""

REAL_PATH = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', '')}"
"""A ``PATH`` on which ``ssnt`` is what pip has installed, a real process."""

_EARLY = ("LANG", "LC_", "MPL", "NUMBA", "PYTHON", "TRITON")
"""How variables begin that are read when Python starts or one of the packages is imported."""

_LATE = ("PYTHONPATH", "PYTHONBREAKPOINT")
"""Those of them that are not; a test with Ray leaves the second behind."""

_STREAMS = (0, 1, 2)
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def is_usable() -> bool:
    """Whether processes can come from a server here."""
    return sys.platform == "linux" and os.environ.get("SSNT_FORK_SERVER") != "0"


class ForkServer:
    """Starts a server; ``close`` ends it. Processes may be asked for at once: they wait until it is ready.

    Attributes:
        bin: The directory with ``ssnt``, for the front of ``PATH``.
        python: What can stand for ``sys.executable``.
    """

    def __init__(self) -> None:
        import json
        import shlex
        import subprocess
        import tempfile
        from pathlib import Path

        self._directory = tempfile.TemporaryDirectory(prefix="ssnt-")  # pytest's paths can be too long for a socket
        self.bin = Path(self._directory.name)
        self.python = str(self.bin / "quick-python")
        for name in ("ssnt", "quick-python"):
            # -I and -S: a quick start, whatever the environment says
            words = [sys.executable, "-I", "-S", __file__, str(self.bin), name]
            (self.bin / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
            (self.bin / name).chmod(0o755)
        (self.bin / "early.json").write_text(json.dumps(_early()), encoding="utf-8")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.bin / "socket"))
            listener.listen(64)
            self._server = subprocess.Popen(
                [sys.executable, __file__, str(self.bin), "server", str(listener.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                env=os.environ | {"OMP_NUM_THREADS": "1"},  # a library with more starts them when it is imported
                start_new_session=True,  # Ctrl-C at the keyboard reaches forks by their clients
            )

    def close(self) -> None:
        self._server.communicate()  # the end of its input is its end
        self._directory.cleanup()


def _early() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_EARLY) and name not in _LATE}


# ---- the client


def ask(home: str, program: str, arguments: list[str]) -> None:
    """Asks for a process, waits for its end and ends in the same way; or becomes a real process."""
    import json

    with open(f"{home}/early.json", encoding="utf-8") as file:
        is_served = json.load(file) == _early() and (program == "ssnt" or _is_understood(arguments))
    if not is_served:
        real = [_script()] if program == "ssnt" else []
        os.execv(sys.executable, [sys.executable, *real, *arguments])
    request = {
        "program": program,
        "arguments": arguments,
        "directory": os.getcwd(),
        "environment": dict(os.environ),
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # until there is somebody to pass them on to
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"{home}/socket")
        socket.send_fds(connection, [b"!"], _STREAMS)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile() as answers:
            process = int(answers.readline() or sys.exit("the fork server has not answered"))
            for number in _PASSED_ON:
                signal.signal(number, lambda number, _: os.kill(process, number))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
            code = int(answers.readline())
    if code < 0:  # it died of a signal
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _is_understood(arguments: list[str]) -> bool:
    """Whether these arguments of Python are ``[-P] -m MODULE ...``, with a module of ours, or ``[-P] -c CODE ...``."""
    option, value = [*(arguments[1:] if arguments[:1] == ["-P"] else arguments), "", ""][:2]
    return option == "-c" or (option == "-m" and value.partition(".")[0] == "ssnt")


def _script() -> str:
    return os.path.join(os.path.dirname(sys.executable), "ssnt")


# ---- the server


def serve(home: str, listener: socket.socket) -> list[str]:
    """Answers clients until standard input ends. Returns in forks only, with the command that they are to run."""
    import gc
    import select
    from importlib import import_module

    for name in PACKAGES:
        import_module(name)
    import_module("numba").njit("int64(int64)")(lambda n: n)  # with its first function, Numba sets itself up
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"an import has started threads: {len(threads)}; a fork would be without them"
    gc.freeze()  # what is there stays, and memory stays shared
    forks: list[int] = []
    while True:
        if listener not in select.select([listener, 0], [], [])[0]:
            os.killpg(0, signal.SIGKILL)  # this process, and whatever a test has left behind
        connection, _ = listener.accept()
        forks = [fork for fork in forks if os.waitpid(fork, os.WNOHANG) == (0, 0)]  # no heap of zombies
        forks.append(os.fork())
        if forks[-1] == 0:
            listener.close()
            with connection:
                return start(home, connection)
        connection.close()


def start(home: str, connection: socket.socket) -> list[str]:
    """Forks a process, tells the client its number and its exit code, and kills it if the client has gone.

    Returns in the new process only, with the command that it is to run.
    """
    import json
    import select

    _, streams, *_ = socket.recv_fds(connection, 1, len(_STREAMS))
    with connection.makefile() as sent:
        request = json.loads(sent.readline())
    process = os.fork()
    if process == 0:
        return become(home, request, streams)
    for stream in streams:
        os.close(stream)  # whoever reads what the process writes sees its end
    connection.sendall(f"{process}\n".encode())
    end = os.pidfd_open(process)
    if end not in select.select([connection, end], [], [])[0]:  # a client says nothing more
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    try:
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    finally:
        os._exit(0)


def become(home: str, request: dict, streams: list[int]) -> list[str]:
    """Takes over what a client would have been as a process. Returns the command to run."""
    os.chdir(request["directory"])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    os.environ.clear()
    os.environ.update(request["environment"])
    for stream, own in zip(streams, _STREAMS, strict=True):
        os.dup2(stream, own)
        os.close(stream)
    # New ones, as the old ones know what kind of files they were.
    for name, mode, buffering in (("stdin", "r", -1), ("stdout", "w", -1), ("stderr", "w", 1)):
        old = getattr(sys, name)
        new = os.fdopen(old.fileno(), mode, buffering, encoding=old.encoding, errors=old.errors, closefd=False)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    script, command = _script(), request["arguments"]
    if request["program"] == "ssnt":
        first, command = [os.path.dirname(script)], [script, *command]
    elif command[0] == "-P":
        first, command = [], command[1:]
    else:
        first = [""]
    path = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path[:1] = [*first, *path]  # the first was this file's directory
    sys.executable = f"{home}/quick-python"  # what it starts comes from here, too
    return command


def run(command: list[str]) -> None:
    """Runs a script, ``-m MODULE`` or ``-c CODE``, with the arguments after it."""
    import runpy
    import types

    first, *rest = command
    if first == "-m":
        sys.argv = ["-m", *rest[1:]]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(rest[0], main.__dict__)
    else:
        sys.argv = command
        runpy.run_path(first, run_name="__main__")


def main() -> None:
    import atexit

    home, program, *arguments = sys.argv[1:]
    if program != "server":
        ask(home, program, arguments)
    code = None

    def leave() -> None:
        """Spares a fork the end of the interpreter, which takes apart everything that was imported."""
        if code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    atexit.register(leave)  # the first that is registered is the last that is called
    command = serve(home, socket.socket(fileno=int(arguments[0])))
    try:
        run(command)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else None
        raise


if __name__ == "__main__":
    main()
