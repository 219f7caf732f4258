"""One of several processes that read and write values of 10 KB in one store, a write for 20 reads.

`tier_processes.py ENGINE FOLDER NUMBER COUNT` prints `ready`, waits for a line, and prints the
nanoseconds of each of its writes.
"""

import logging
import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable

VALUE = bytes(range(256)) * 40
KEYS = 200
READS = 20

Store = tuple[Callable[[int], object], Callable[[int], object]]


def ours(folder: str, megabytes: int = 64) -> Store:
    from tidemark_cache import FileBackend, cache

    # A write that waited in vain for 50 ms is dropped and counts with its time.
    logging.getLogger("tidemark_cache").setLevel(logging.ERROR)
    backend = FileBackend(folder=folder, megabytes=megabytes, listen=False)
    # Memory has room for one answer: the file is asked.
    rules = {"backend": backend, "maxsize": 1, "namespace": "bench", "version": 1}
    function = cache(**rules)(lambda key: VALUE)
    return function, lambda key: function.cache_set(VALUE, key)


def apart(folder: str) -> Store:
    """As ours, in a file that no other process has."""
    return ours(f"{folder}/{os.getpid()}", megabytes=16)


def sqlite(folder: str) -> Store:
    made = sqlite3.connect(f"{folder}/values", isolation_level=None, timeout=60)
    made.execute("PRAGMA journal_mode = WAL")
    made.execute("PRAGMA synchronous = OFF")
    made.execute("CREATE TABLE IF NOT EXISTS entries (key INTEGER PRIMARY KEY, value BLOB)")

    def read(key: int) -> object:
        return made.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()

    def write(key: int) -> object:
        return made.execute("INSERT OR REPLACE INTO entries VALUES (?, ?)", (key, VALUE))

    return read, write


def main() -> None:
    engine, folder, number, count = sys.argv[1:]
    read, write = {"ours": ours, "apart": apart, "sqlite": sqlite}[engine](folder)
    chance = random.Random(number)
    for key in range(KEYS):
        write(key)
    print("ready", flush=True)
    sys.stdin.readline()
    spent = []
    for _ in range(int(count)):
        for _ in range(READS):
            read(chance.randrange(KEYS))
        key = chance.randrange(KEYS)
        start = time.perf_counter_ns()
        write(key)
        spent.append(time.perf_counter_ns() - start)
    print(*spent)


if __name__ == "__main__":
    main()
