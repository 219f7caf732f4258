"""The package, its tests and its example are typed, as `mypy --strict` judges."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent


def test_everything_is_typed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    checked = subprocess.run(
        [*command, "src/tidemark", "tests", "examples"],
        cwd=FOLDER,
        env={"MYPYPATH": "src:tests", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
