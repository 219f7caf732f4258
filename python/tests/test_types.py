"""The stubs say what the decorator does: right calls pass mypy, each wrong one is found."""

import importlib
import pathlib
import re
import subprocess
import sys

TYPED = pathlib.Path(__file__).with_name("typed.py")


def test_types_are_those_of_the_function() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(TYPED)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TYPED.parents[1])
    found = set(re.findall(r"typed\.py:(\d+): error: .*\[([a-z-]+)\]", done.stdout))
    expected = {
        (str(number), code)
        for number, line in enumerate(TYPED.read_text().splitlines(), 1)
        for code in re.findall(r"# expect: ([a-z-]+)", line)
    }
    assert len(expected) == 5
    assert found == expected, done.stdout + done.stderr


def test_stub_names_what_the_package_exports() -> None:
    package = importlib.import_module("tidemark_cache")
    stub = pathlib.Path(package.__file__ or "").with_suffix(".pyi").read_text()
    said = re.search(r"__all__ = \[(.*?)\]", stub)
    assert said is not None
    assert re.findall(r'"(\w+)"', said[1]) == package.__all__
