"""Starts the real binary on a fresh data directory, opens clients to it and stops it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import requests
from appwrite.client import Client
from appwrite.exception import AppwriteException
from appwrite.services.tables_db import TablesDB

LIMIT_S = 20
"""How long the binary may take until it serves, or until it has ended; a hang fails."""

POLL_S = 0.02

T = TypeVar("T")


def poll(what: str, attempt: Callable[[], T | None]) -> T:
    """Repeats `attempt` until it gives something other than None."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found = attempt()
        if found is not None:
            return found
        time.sleep(POLL_S)
    raise TimeoutError(f"{what} took more than {LIMIT_S} s")


def binary_path() -> str:
    binary = os.environ.get("TIDEMARK_BIN")
    assert binary, "TIDEMARK_BIN must name the tidemark binary to test"
    return binary


def environment_of(directory: Path) -> dict[str, str]:
    """The environment without the settings that the binary would read from it.

    Where the suite runs on a database, each directory has a schema of its own there.
    """
    bare = {key: value for key, value in os.environ.items() if not key.startswith("TIDEMARK_")}
    database = os.environ.get("TIDEMARK_TEST_DATABASE")
    if database is not None:
        bare["TIDEMARK_DATABASE"] = f"{database}&schema={directory.name}"
    return bare


@dataclass(frozen=True)
class Bootstrap:
    """What the binary wrote on its first start."""

    endpoint: str
    project_id: str
    api_key: str


class Server:
    """One running server over one data directory."""

    bootstrap: Bootstrap

    def __init__(self, directory: Path, listen: str) -> None:
        self.directory = directory
        self.bootstrap_path = directory / "bootstrap.json"
        self.log = open(directory / "output.txt", "ab")  # noqa: SIM115 -- closed by stop()
        self.process = subprocess.Popen(
            [
                binary_path(),
                "serve",
                "--data",
                str(directory / "data"),
                "--listen",
                listen,
                "--bootstrap-file",
                str(self.bootstrap_path),
            ],
            env=environment_of(directory),
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )

    @classmethod
    def start(cls) -> Server:
        """A first start: new data directory, port chosen by the system."""
        server = cls(Path(tempfile.mkdtemp(prefix="tidemark-sdk-")), "127.0.0.1:0")
        server.bootstrap = poll("writing the bootstrap file", server._read_bootstrap)
        server._until_healthy()
        return server

    def _output(self) -> str:
        return (self.directory / "output.txt").read_text(errors="replace")[-10_000:]

    def _assert_running(self) -> None:
        assert self.process.poll() is None, f"the server ended early:\n{self._output()}"

    def _read_bootstrap(self) -> Bootstrap | None:
        self._assert_running()
        try:
            written = json.loads(self.bootstrap_path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None  # Not there yet, or half written.
        return Bootstrap(written["endpoint"], written["projectId"], written["apiKey"])

    def _until_healthy(self) -> None:
        def ask() -> bool | None:
            self._assert_running()
            try:
                answer = requests.get(f"{self.bootstrap.endpoint}/health/version", timeout=LIMIT_S)
            except requests.ConnectionError:
                return None
            return True if answer.ok else None

        poll("answering", ask)

    def stop(self) -> None:
        """Stops the process as an operator does, and demands a clean end."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = None
        self.log.close()
        assert status == 0, f"after SIGTERM: {status}; output:\n{self._output()}"

    def restart(self) -> Server:
        """Stops, and serves the same data again at the same address."""
        self.stop()
        address = self.bootstrap.endpoint.removeprefix("http://").removesuffix("/v1")
        server = Server(self.directory, address)
        server.bootstrap = self.bootstrap
        server._until_healthy()
        return server

    def close(self) -> None:
        """Stops and removes the data directory."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.directory)

    def tables(self, key: str | None = "") -> TablesDB:
        """The tables API with `key`, by default the first key; None makes a guest."""
        client = Client().set_endpoint(self.bootstrap.endpoint)
        client.set_project(self.bootstrap.project_id)
        if key is not None:
            client.set_key(key or self.bootstrap.api_key)
        return TablesDB(client)

    def ask(
        self,
        method: str,
        route: str,
        *,
        guest: bool = False,
        headers: dict[str, str] | None = None,
        **how: Any,
    ) -> requests.Response:
        """One plain HTTP request, for what the SDK hides."""
        own = {"X-Appwrite-Project": self.bootstrap.project_id}
        if not guest:
            own["X-Appwrite-Key"] = self.bootstrap.api_key
        url = self.bootstrap.endpoint + route
        return requests.request(
            method, url, headers={**own, **(headers or {})}, timeout=LIMIT_S, **how
        )


def check_refused(call: Callable[[], Any], code: int, type: str, text: str = "") -> None:
    """Demands that `call` is refused with this status, error type and part of the message."""
    try:
        answer = call()
    except AppwriteException as error:
        assert (error.code, error.type) == (code, type), error.message
        assert text in error.message
        return
    raise AssertionError(f"expected {code} {type}, got an answer: {answer!r:.300}")


def user_data(row: Any) -> dict[str, Any]:
    """The user's columns of one row model, without the system fields."""
    return {key: value for key, value in row.data.items() if not key.startswith("$")}


def ids(rows: Any) -> list[str]:
    return [row.id for row in rows.rows]
