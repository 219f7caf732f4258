"""How writers share commits: `python bench/instructions/groups.py BINARY [BINARY]`.

A server with two threads that answer takes inserts of several connections, each of which waits for
its 201 before it sends the next one. Prints Markdown, for each number of connections: the rows of a
commit, how often the writer's thread went to sleep for it, where its time went (`schedstat`), and
by `strace`, in a run of its own, the calls of the system for a row. Counts say what times on a busy
machine do not; the shares of the time do depend on it. Of two binaries the second is the later one.

Needs `strace` for the calls; without it they are left out. `--instructions` counts the instructions
of a row under callgrind in their place, by layer as `profile.py` does; under it a commit has other
numbers of rows, which are printed, too.
"""

import argparse
import contextlib
import functools
import http.client
import json
import os
import pathlib
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import acts
import counted as counts
from served import KEY, OWN_HEADERS, caller, under_callgrind

WARM_UP = 200
#: The server gives the same reading of its metrics again for a second.
READING_KEPT_S = 1.2
#: Calls of the system that wake a thread, or put it to sleep: of these a row should need few.
CALLS = ("futex", "write", "epoll_wait", "fdatasync", "fcntl", "pwrite64")
LAYERS = (*(name for name, _ in counts.LAYERS), counts.OTHERS)


@contextlib.contextmanager
def server(binary: str) -> Iterator[tuple[int, int, int]]:
    """A server on an empty data directory: its process, its port, and that of its metrics."""
    with tempfile.TemporaryDirectory(prefix="groups-") as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        metrics = free.getsockname()[1]
        free.close()
        words = [binary, "serve", "--listen", "127.0.0.1:0", "--threads", "2"]
        words += ["--data", str(pathlib.Path(folder) / "data")]
        words += ["--metrics-listen", f"127.0.0.1:{metrics}"]
        variables = {"TIDEMARK_PROJECT_ID": "p", "TIDEMARK_API_KEY": KEY}
        program = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **variables},
            text=True,
        )
        try:
            assert program.stdout is not None
            named = (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in program.stdout)
            port = next((int(found.group(1)) for found in named if found), None)
            if port is None:
                sys.exit(f"{words} does not start")
            yield program.pid, port, metrics
        finally:
            program.terminate()
            program.wait()


def insertion(number: int) -> bytes:
    """The bytes of one request."""
    body = json.dumps({"rowId": f"g{number}", "data": {"n": number, "s": f"group {number}"}})
    head = [f"POST /v1{acts.TABLE}/rows HTTP/1.1", "Host: t", f"Content-Length: {len(body)}"]
    head += [f"{name}: {value}" for name, value in OWN_HEADERS.items()]
    return ("\r\n".join([*head, "", body])).encode()


def insert(port: int, connections: int, numbers: range) -> None:
    """Inserts these rows, one at a time over each of the connections."""
    ready = selectors.DefaultSelector()
    left = iter(numbers)
    for _, number in zip(range(connections), left):
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ready.register(client, selectors.EVENT_READ)
        client.sendall(insertion(number))
    open_requests = len(ready.get_map())
    while open_requests:
        for key, _ in ready.select():
            client = key.fileobj
            assert isinstance(client, socket.socket)
            # An answer of this size comes in one piece.
            answer = client.recv(65_536)
            if not answer.startswith(b"HTTP/1.1 201"):
                sys.exit(f"not inserted: {answer[:300]!r}")
            number = next(left, None)
            if number is None:
                open_requests -= 1
                ready.unregister(client)
                client.close()
            else:
                client.sendall(insertion(number))


def commits(metrics: int) -> int:
    """How many there were so far."""
    time.sleep(READING_KEPT_S)
    connection = http.client.HTTPConnection("127.0.0.1", metrics)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    found = re.search(r"^tidemark_commits_total\S* (\d+)", text, re.MULTILINE)
    assert found is not None, text[:500]
    return int(found.group(1))


def writer(pid: int) -> tuple[int, int, int]:
    """Of the writer's thread: how often it went to sleep, and how long it ran and was ready to run
    without a core, in nanoseconds."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "writer":
            ran, ready, _ = map(int, (task / "schedstat").read_text().split())
            slept = re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text())
            assert slept is not None
            return int(slept.group(1)), ran, ready
    sys.exit("there is no thread called writer")


def counted(pid: int, act: Callable[[], None]) -> dict[str, int]:
    """Calls of the system while `act` goes on."""
    with tempfile.NamedTemporaryFile() as file:
        words = ["strace", "-f", "-c", "-o", file.name, "-p", str(pid)]
        tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert tracer.stderr is not None
        tracer.stderr.readline()
        act()
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
        lines = pathlib.Path(file.name).read_text().splitlines()
    rows = (line.split() for line in lines if re.match(r"\s+\d", line))
    return {row[-1]: int(row[3]) for row in rows}


def line(binary: str, connections: int, rows: int) -> str:
    """One row of the table."""
    with server(binary) as (pid, port, metrics):
        acts.fill(caller(port))
        insert(port, connections, range(WARM_UP))
        before, at = commits(metrics), writer(pid)
        began_ns = time.monotonic_ns()
        insert(port, connections, range(WARM_UP, WARM_UP + rows))
        whole = time.monotonic_ns() - began_ns
        slept, ran, ready = (now - then for now, then in zip(writer(pid), at))
        made = commits(metrics) - before
        numbers = range(WARM_UP + rows, WARM_UP + 2 * rows)
        again = functools.partial(insert, port, connections, numbers)
        calls = counted(pid, again) if shutil.which("strace") else {}
    shares = [ran / whole, ready / whole, 1 - (ran + ready) / whole]
    cells = [f"{connections}", f"{rows / made:.1f}", f"{slept / made:.1f}"]
    cells += [f"{share:.0%}" for share in shares]
    cells += [f"{calls.get(name, 0) / rows:.2f}" for name in CALLS]
    return "| " + " | ".join(cells) + " |"


def instructions(binary: str, connections: int, rows: int, functions: int) -> str:
    """What a row takes, as one row of a table and the dearest functions."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        metrics = free.getsockname()[1]
    words = [binary, "serve", "--listen", "127.0.0.1:0", "--threads", "2"]
    words += ["--metrics-listen", f"127.0.0.1:{metrics}"]
    with under_callgrind(words, "--data") as program:
        acts.fill(program.call)
        insert(program.port, connections, range(WARM_UP))
        before = commits(metrics)
        numbers = range(WARM_UP, WARM_UP + rows)
        dump = program.counted(functools.partial(insert, program.port, connections, numbers), 1)
        made = commits(metrics) - before
    one = counts.read(dump).of_one(rows)
    cells = [f"{connections}", f"{rows / made:.1f}", f"{one.instructions:,.0f}"]
    cells += [f"{one.allocations:.1f}", f"{one.system_calls:.1f}"]
    cells += [f"{one.layers[layer]:,.0f}" for layer in LAYERS]
    lines = ["| " + " | ".join(cells) + " |"]
    for function, cost in one.functions.most_common(functions):
        lines.append(f"{cost:>12,.0f}  {function[:100]}")
    return "\n".join(lines)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("binary", nargs="+", help="a binary of Tidemark")
    parser.add_argument("--rows", type=int, default=4_000, help="of each number of connections")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--instructions", action="store_true", help="count those, and no calls")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="the N dearest, too")
    chosen = parser.parse_args()
    head = ["connections", "rows a commit"]
    if chosen.instructions:
        head += ["instructions", "allocations", "system calls", *LAYERS]
    else:
        head += ["sleeps a commit", "ran", "ready", "asleep", *CALLS]
    for binary in chosen.binary:
        print(f"\n{binary}\n\n| " + " | ".join(head) + " |\n|" + "---:|" * len(head))
        for connections in chosen.connections:
            if chosen.instructions:
                row = instructions(binary, connections, chosen.rows, chosen.functions)
            else:
                row = line(binary, connections, chosen.rows)
            print(row, flush=True)


if __name__ == "__main__":
    main()
