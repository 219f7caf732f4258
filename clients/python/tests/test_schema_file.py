"""The models that `tidemark schema types python` prints are typed, and hold rows."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType

import pytest
from server import Server

SOURCE = Path(__file__).parent.parent / "src"
SCHEMA = Path(__file__).parents[2] / "schema-file.json"


@pytest.fixture
def models(server: Server, tmp_path: Path) -> Path:
    path = tmp_path / "shop_models.py"
    path.write_text(server.run("schema", "types", "python", "--file", str(SCHEMA)))
    return path


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_models_of_a_schema_file_are_typed(models: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    checked = subprocess.run(
        [*command, str(models)],
        env={"MYPYPATH": str(SOURCE), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_models_of_a_schema_file_hold_the_rows_of_its_tables(
    models: Path, server: Server
) -> None:
    server.run("schema", "push", "--file", str(SCHEMA), "--data", str(server.directory / "data"))
    line = load(models).OrderLines
    at = datetime(2026, 5, 1, 8, 30, tzinfo=timezone.utc)
    with server.client(database="shop") as client:
        lines = client.table(line)
        row = line(number=7, state="new", mail="a@b.example", price=1.5, at=at, times=[at])
        lines.create(row)
        found = lines.get(row.id)
        assert found is not None
        assert (found.number, found.at, found.times) == (7, at, [at])
        assert (found.pieces, found.flags) == (None, [])
        by_number = line.by_number(client, 7)
        assert by_number is not None and by_number.id == row.id
