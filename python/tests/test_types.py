"""The stubs say what the decorator does: right calls pass mypy, each wrong one is found."""

import importlib
import json
import pathlib
import re
import subprocess
import sys

TYPED = pathlib.Path(__file__).with_name("typed.py")


def expected() -> dict[int, str]:
    lines = enumerate(TYPED.read_text().splitlines(), 1)
    said = {number: re.search(r"# expect: ([a-z-]+)", line) for number, line in lines}
    found = {number: match[1] for number, match in said.items() if match}
    assert len(found) == 8
    return found


def test_types_are_those_of_the_function_for_mypy() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(TYPED)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TYPED.parents[1])
    found = re.findall(r"typed\.py:(\d+): error: .*\[([a-z-]+)\]", done.stdout)
    assert {int(line): code for line, code in found} == expected(), done.stdout + done.stderr


def test_package_is_typed() -> None:
    command = [sys.executable, "-m", "mypy", "--no-incremental", "tidemark_cache"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TYPED.parents[1])
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_are_those_of_the_function_for_pyright() -> None:
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", "."]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TYPED.parents[1])
    told = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one for one in told if one["severity"] == "error"]
    lines = {one["range"]["start"]["line"] + 1 for one in errors}
    assert lines == set(expected()), json.dumps(errors, indent=1)


def test_stub_names_what_the_package_exports() -> None:
    package = importlib.import_module("tidemark_cache")
    stub = pathlib.Path(package.__file__ or "").with_suffix(".pyi").read_text()
    said = re.search(r"__all__ = \[(.*?)\]", stub, re.DOTALL)
    assert said is not None
    assert re.findall(r'"(\w+)"', said[1]) == package.__all__
