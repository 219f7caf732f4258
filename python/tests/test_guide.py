"""A newcomer's session: what the README and the guide show does what its comments say."""

import pathlib
import re
import runpy
import sys
import types
from typing import Any

import pytest

import tidemark_cache

ROOT = pathlib.Path(__file__).parents[2]
SESSIONS = [("README.md", "## A cache for Python"), ("docs/guides/python-cache.md", "## A first session")]


@pytest.mark.parametrize("page, heading", SESSIONS)
def test_first_session_runs_as_the_page_says(page: str, heading: str) -> None:
    section = (ROOT / page).read_text().split(heading)[1]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert program is not None
    names: dict[str, Any] = {"__name__": "session"}
    *definitions, calls = program[1].strip().split("\n\n")
    exec("\n\n".join(definitions), names)
    lines = calls.splitlines()
    assert len(lines) == 5
    for line in lines:
        call, _, said = line.partition("#")
        answer = repr(eval(call, names))
        rest = said.strip().removeprefix(answer)
        assert rest != said.strip() and (not rest or rest.startswith(":")), (line, answer)


def test_programs_of_the_guide_run_in_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs/guides/python-cache.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(programs) > 8
    module = types.ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", module)
    for program in programs:
        exec(program, vars(module))
    cached = [name for name, one in vars(module).items() if hasattr(one, "cache_info")]
    assert {"rates", "prices", "weight", "stock", "visits", "user"} <= set(cached)


def test_guide_names_every_setting_and_attribute() -> None:
    guide = (ROOT / "docs/guides/python-cache.md").read_text()
    settings = tidemark_cache._settings._NAMES  # type: ignore[attr-defined]
    attributes = [
        name
        for name in vars(tidemark_cache._native.Cached)  # type: ignore[attr-defined]
        if not name.startswith("_")
    ]
    missing = [name for name in (*settings, *attributes) if f"`{name}" not in guide]
    assert not missing


def test_client_passes_its_command_on_to_the_cache(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main = runpy.run_path(str(ROOT / "clients/python/src/tidemark/__main__.py"))["main"]
    backend = tidemark_cache.FileBackend(folder=tmp_path / "tier", megabytes=1, listen=False)
    tidemark_cache.cache(backend=backend, namespace="tool", version=1)(lambda: 1)()
    assert main(["cache", "inspect", "--folder", str(backend.folder)]) == 0
    assert "entries: " in capsys.readouterr().out
    assert main(["rows"]) == 2 and "tidemark cache" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tidemark_cache.__main__", None)
    assert main(["cache", "inspect"]) == 2
    assert "tidemark[cache]" in capsys.readouterr().err


def test_client_offers_the_cache_when_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (ROOT / "clients/python/src/tidemark/__init__.py").read_text()
    body = source[source.index("    def __getattr__") :]
    module = types.ModuleType("tidemark")
    lines = [line.removeprefix("    ") for line in body.splitlines()]
    exec("from typing import Any\n" + "\n".join(lines), module.__dict__)
    assert module.cache is tidemark_cache.cache
    with pytest.raises(AttributeError, match="colour"):
        module.colour  # noqa: B018
    monkeypatch.setitem(sys.modules, "tidemark_cache", None)
    with pytest.raises(ImportError, match=r"tidemark\[cache\]"):
        module.cache  # noqa: B018
