"""The performance example runs, and reads what it has written; so does the README's program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from server import Server

FOLDER = Path(__file__).parent.parent


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=FOLDER,
        env={"PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_performance_example_runs(server: Server) -> None:
    words = ["--endpoint", server.endpoint, "--project", server.project, "--key", server.key]
    few = ["--objects", "120", "--warm-ups", "0", "--runs", "1"]
    assert len(run("examples/thousand.py", *words, *few).splitlines()) == 8


def test_the_program_of_the_readme_runs(server: Server) -> None:
    found = re.search(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    assert found
    program = found[1].replace("http://127.0.0.1:8280/v1", server.endpoint)
    caller = f"project={server.project!r}, key={server.key!r}"
    program = program.replace('project="shop", key="…"', caller)
    printed = run("-c", program).splitlines()
    assert printed[0] == "Ann"
    wanted = [f"{n}@example.com" for n in range(1000) if str(n).startswith("9")]
    assert sorted(printed[1:]) == sorted(wanted)
