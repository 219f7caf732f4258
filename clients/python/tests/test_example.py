"""The performance example runs, and reads what it has written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from server import Server

FOLDER = Path(__file__).parent.parent


def test_the_performance_example_runs(server: Server) -> None:
    words = ["--endpoint", server.endpoint, "--project", server.project, "--key", server.key]
    few = ["--objects", "120", "--warm-ups", "0", "--runs", "1"]
    done = subprocess.run(
        [sys.executable, "examples/thousand.py", *words, *few],
        cwd=FOLDER,
        env={"PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 8
