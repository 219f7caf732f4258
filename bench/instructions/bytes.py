"""What one of each takes: `python bench/instructions/bytes.py BINARY`.

A server of the binary is started on an empty data directory. Prints Markdown: the bytes of a cached
list above its body, of an idle connection, and of a row in each index, each with the bound that it
is held to; ends with 1 where one is above its bound.

A cached list and an idle connection are what the process's resident memory grows by for each
(`VmRSS`), a row's bytes are those of the pages of an index (SQLite's `dbstat`).
"""

import argparse
import contextlib
import http.client
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import acts
from served import KEY, OWN_HEADERS, caller

ROWS = 20_000
ROWS_A_REQUEST = 100
LISTS = 20_000
CONNECTIONS = 1_000
#: The server gives back what it has freed when it has nothing to do for so long, in seconds.
QUIET_S = 3
#: Bytes of each, at most. The allocator's sizes, up to an eighth above what was wanted, are in it.
BOUNDS = {
    "cached list of one row": 1_600,
    "cached list of 25 rows": 2_600,
    "idle connection": 12_000,
    "row, index of ids": 20,
    "row, key on an integer": 16,
    "row, key on a text of 16 bytes": 32,
    "row, unique key on it": 32,
    "row, key on both": 40,
}
#: The indexes of a row of now that are weighed, by their names in the database.
INDEXES = {
    "t1_id": "row, index of ids",
    "t1_i1": "row, key on an integer",
    "t1_i2": "row, key on a text of 16 bytes",
    "t1_i3": "row, unique key on it",
    "t1_i4": "row, key on both",
}


@contextlib.contextmanager
def server(binary: str, data: pathlib.Path) -> Iterator[tuple[int, int]]:
    """A server with one thread that answers: its process and its port."""
    words = [binary, "serve", "--listen", "127.0.0.1:0", "--threads", "1", "--data", str(data)]
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
        yield program.pid, port
    finally:
        program.terminate()
        program.wait()


def resident(pid: int) -> int:
    """Bytes in memory, once the server has nothing to do."""
    time.sleep(QUIET_S)
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) * 1024


def fill(port: int) -> None:
    """A table with the indexes and its rows: 16 bytes of text, in no order."""
    call = caller(port)
    call("POST", "/tablesdb", {"databaseId": "d", "name": "d"})
    columns = [
        {"key": "n", "type": "integer", "required": False},
        {"key": "s", "type": "string", "size": 64, "required": False},
    ]
    indexes = [
        {"key": "a", "type": "key", "attributes": ["n"]},
        {"key": "b", "type": "key", "attributes": ["s"]},
        {"key": "c", "type": "unique", "attributes": ["s"]},
        {"key": "d", "type": "key", "attributes": ["n", "s"]},
    ]
    table = {"tableId": "t", "name": "t", "columns": columns, "indexes": indexes}
    call("POST", "/tablesdb/d/tables", table)
    for first in range(0, ROWS, ROWS_A_REQUEST):
        numbers = range(first, first + ROWS_A_REQUEST)
        scattered = ((number, number * 7_919 % ROWS) for number in numbers)
        rows = [{"$id": f"r{number}", "n": n, "s": f"{n:016}"} for number, n in scattered]
        call("POST", f"{acts.TABLE}/rows", {"rows": rows})


def list_bytes(pid: int, port: int, rows: int) -> float:
    """Of one cached list above its body."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    before, bodies = resident(pid), 0
    for number in range(LISTS):
        queries = (
            {"method": "greaterThanEqual", "attribute": "n", "values": [number]},
            {"method": "orderAsc", "attribute": "n"},
            {"method": "limit", "values": [rows]},
        )
        path = acts.listing(*queries) + "&total=false"
        connection.request("GET", "/v1" + path, headers=OWN_HEADERS)
        bodies += len(connection.getresponse().read())
    return (resident(pid) - before - bodies) / LISTS


def connection_bytes(pid: int, port: int) -> float:
    """Of one connection that has read a row and rests."""
    before = resident(pid)
    calls = [caller(port) for _ in range(CONNECTIONS)]
    for call in calls:
        call("GET", f"{acts.TABLE}/rows/r7")
    return (resident(pid) - before) / CONNECTIONS


def index_bytes(data: pathlib.Path) -> dict[str, float]:
    """Of one row in each index."""
    with contextlib.closing(sqlite3.connect(data / "tidemark.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = dict(database.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
    return {what: pages[name] / ROWS for name, what in INDEXES.items()}


def weighed(binary: str, data: pathlib.Path) -> dict[str, float]:
    """What one of each takes; each is weighed on a server of its own."""
    found = {}
    with server(binary, data) as (_, port):
        fill(port)
    for what, rows in (("cached list of one row", 1), ("cached list of 25 rows", 25)):
        with server(binary, data) as (pid, port):
            found[what] = list_bytes(pid, port, rows)
    with server(binary, data) as (pid, port):
        found["idle connection"] = connection_bytes(pid, port)
    return found | index_bytes(data)


def main() -> None:
    """Weighs, prints and judges."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("binary", help="a binary of Tidemark")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bytes-") as folder:
        found = weighed(chosen.binary, pathlib.Path(folder) / "data")
    print("| one | bytes | at most |\n|---|---:|---:|")
    for what, count in found.items():
        print(f"| {what} | {count:,.0f} | {BOUNDS[what]:,} |")
    sys.exit(int(any(count > BOUNDS[what] for what, count in found.items())))


if __name__ == "__main__":
    main()
