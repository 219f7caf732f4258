"""Starts the real binary on a fresh data directory, and stops it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

import tidemark

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


def _binary() -> str:
    binary = os.environ.get("TIDEMARK_BIN")
    assert binary, "TIDEMARK_BIN must name the tidemark binary to test"
    return binary


def _environment() -> dict[str, str]:
    """Without the settings that the binary would read from the environment."""
    return {k: v for k, v in os.environ.items() if not k.startswith("TIDEMARK_")}


class Server:
    """One running server over one data directory."""

    def __init__(self, directory: Path, listen: str, *flags: str) -> None:
        self.directory = directory
        self.bootstrap_path = directory / "bootstrap.json"
        self.endpoint, self.project, self.key = "", "", ""
        with open(directory / "output.txt", "ab") as log:
            self.process = subprocess.Popen(
                [_binary(), "serve", "--data", str(directory / "data"), "--listen", listen]
                + ["--bootstrap-file", str(self.bootstrap_path), *flags],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @classmethod
    def start(cls, *flags: str) -> Server:
        """A first start: new data directory, port chosen by the system."""
        server = cls(Path(tempfile.mkdtemp(prefix="tidemark-client-")), "127.0.0.1:0", *flags)
        written = poll("writing the bootstrap file", server._read_bootstrap)
        server.endpoint, server.project = written["endpoint"], written["projectId"]
        server.key = written["apiKey"]
        server._until_healthy()
        return server

    def cli(self, *words: str) -> Any:
        """Another command of the binary over this data directory; its JSON answer."""
        command = [_binary(), *words, "--data", str(self.directory / "data"), "--json"]
        done = subprocess.run(command, env=_environment(), capture_output=True, check=True)
        return json.loads(done.stdout)

    def run(self, *words: str) -> str:
        """Another command of the binary; what it prints."""
        done = subprocess.run(
            [_binary(), *words], env=_environment(), capture_output=True, check=False, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _assert_running(self) -> None:
        output = (self.directory / "output.txt").read_text(errors="replace")[-10_000:]
        assert self.process.poll() is None, f"the server ended early:\n{output}"

    def _read_bootstrap(self) -> dict[str, str] | None:
        self._assert_running()
        try:
            written: dict[str, str] = json.loads(self.bootstrap_path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None  # Not there yet, or half written.
        return written

    def _until_healthy(self) -> None:
        def ask() -> bool | None:
            self._assert_running()
            try:
                answer = httpx.get(f"{self.endpoint}/health/version", timeout=LIMIT_S)
            except httpx.TransportError:
                return None
            return True if answer.is_success else None

        poll("answering", ask)

    def stop(self) -> None:
        """Stops the process as an operator does, and demands a clean end."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT_S) == 0

    def serve_again(self) -> Server:
        """Serves the data of this stopped server again, at the same address."""
        address = self.endpoint.removeprefix("http://").removesuffix("/v1")
        server = Server(self.directory, address)
        server.endpoint, server.project, server.key = self.endpoint, self.project, self.key
        server._until_healthy()
        return server

    def close(self) -> None:
        """Stops and removes the data directory."""
        try:
            if self.process.poll() is None:
                self.stop()
        finally:
            self.process.kill()
            shutil.rmtree(self.directory)

    def client(self, **options: Any) -> tidemark.Client:
        return tidemark.Client(
            self.endpoint, project=self.project, **{"key": self.key, **options}
        )

    def async_client(self, **options: Any) -> tidemark.AsyncClient:
        return tidemark.AsyncClient(
            self.endpoint, project=self.project, **{"key": self.key, **options}
        )
