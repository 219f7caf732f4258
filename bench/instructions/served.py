"""Servers under callgrind, and requests to them over one connection."""

import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

KEY = "standard_" + "k" * 40
#: Of each request.
OWN_HEADERS = {
    "x-appwrite-project": "p",
    "x-appwrite-key": KEY,
    "content-type": "application/json",
}

#: prctl(2), and the one request of it that is refused here: to read the auxiliary vector.
#: `valgrind` unmaps the kernel's vDSO and removes it from the vector in /proc, but not from this
#: answer; a library that follows it to the vDSO ends the process by a segmentation fault.
PRCTL, PR_GET_AUXV = 157, 0x41555856
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38

#: A method, a path below `/v1`, a body, more headers; answers the headers of the answer.
Call = Callable[..., http.client.HTTPMessage]


def lacks_valgrind() -> bool:
    """Whether nothing can be counted here."""
    return not all(shutil.which(tool) for tool in ("valgrind", "callgrind_control"))


def refuse_vector() -> None:
    """Run in the child before `valgrind`: a filter of seccomp (x86-64) that answers EINVAL."""

    def step(code: int, if_true: int, if_false: int, value: int) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, value)

    steps = [
        step(0x20, 0, 0, 0),  # the number of the call
        step(0x15, 0, 3, PRCTL),
        step(0x20, 0, 0, 16),  # its first argument
        step(0x15, 0, 1, PR_GET_AUXV),
        step(0x06, 0, 0, 0x0005_0000 | 22),
        step(0x06, 0, 0, 0x7FFF_0000),
    ]
    program = ctypes.create_string_buffer(b"".join(steps))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    whole = Filter(len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(whole), 0, 0)


class Served:
    """A running server: its requests, and what they are counted to."""

    def __init__(self, folder: pathlib.Path, pid: int, port: int) -> None:
        self.call, self.port = caller(port), port
        self._folder, self._pid = folder, pid

    def counted(self, act: Callable[[], object], requests: int) -> str:
        """What callgrind writes of so many repetitions of an act."""
        # A dump sets all counters to zero; `--zero` leaves out those of system calls.
        self._control("--dump")
        for _ in range(requests):
            act()
        self._control("--dump")
        dumps = self._folder.glob("counts.*")
        return max(dumps, key=lambda dump: int(dump.suffix[1:])).read_text(errors="replace")

    def _control(self, what: str) -> None:
        command = ["callgrind_control", what, str(self._pid)]
        subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def served(binary: str, cache: str) -> Iterator[Served]:
    """A server with one thread that answers, on an empty data directory."""
    words = [binary, "serve", "--listen", "127.0.0.1:0", "--threads", "1", "--list-cache", cache]
    with under_callgrind(words, "--data") as server:
        yield server


@contextlib.contextmanager
def lean_responder(binary: str, path: str, server: Served) -> Iterator[Served]:
    """The lean responder with one thread, which repeats the body that a server answers."""
    url = f"http://127.0.0.1:{server.port}/v1{path}"
    words = [binary, "bench", "floor", "--lean", "--threads", "1", "--from", url]
    for name, value in OWN_HEADERS.items():
        words += ["--header", f"{name}: {value}"]
    with under_callgrind(words) as responder:
        yield responder


@contextlib.contextmanager
def under_callgrind(words: list[str], folder_option: str | None = None) -> Iterator[Served]:
    """A program that says where it listens, with a folder of its own."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="instructions-"))
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'counts'}"]
    command += ["--collect-systime=yes", *words]
    command += [folder_option, str(folder / "data")] if folder_option else []
    variables = {"TIDEMARK_PROJECT_ID": "p", "TIDEMARK_API_KEY": KEY}
    try:
        with open(folder / "log", "wb") as log:
            program = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **variables},
                text=True,
                preexec_fn=refuse_vector,
            )
        try:
            assert program.stdout is not None
            named = (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in program.stdout)
            port = next((int(found.group(1)) for found in named if found), None)
            if port is None:
                sys.exit(f"{words} does not start:\n{(folder / 'log').read_text()[-2_000:]}")
            yield Served(folder, program.pid, port)
        finally:
            program.terminate()
            program.wait()
    finally:
        shutil.rmtree(folder)


def caller(port: int) -> Call:
    """What sends one request, and ends the run when it fails."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def call(
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        status: int | None = None,
    ) -> http.client.HTTPMessage:
        text = None if body is None else json.dumps(body)
        connection.request(method, "/v1" + path, text, OWN_HEADERS | (headers or {}))
        answer = connection.getresponse()
        content = answer.read()
        is_wanted = answer.status < 300 if status is None else answer.status == status
        if not is_wanted:
            sys.exit(f"{method} {path}: {answer.status} {content[:300]!r}")
        return answer.headers

    return call
