"""The guide of ten tasks, as it stands there: each of its four ways, on the dates it names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import httpx
import pytest
from server import Server

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/ten-tasks.md").read_text()
ANSWERS = {"js": "text", "python": "text", "go": "text", "sh": "json"}
"""The ways, and the blocks in which their answers stand."""
LEFT_OUT = "…"
LIMIT_S = 120
"""For one program; Go builds in it."""

_EVENT = re.compile(
    r"^\*On (?P<date>\d+ \w+ \d{4})\.\*|^## (?P<title>[^\n]+)$"
    r"|^```(?P<language>\w+) ?(?P<role>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Event:
    """One step of the guide: a date, a heading, or a block."""

    date: str | None
    title: str | None
    language: str | None
    role: str
    code: str


EVENTS = [Event(**found.groupdict()) for found in _EVENT.finditer(GUIDE)]
TITLES = [event.title for event in EVENTS if event.title]


def setup(language: str) -> str:
    """What every program in this language begins with."""
    found = [each.code for each in EVENTS if (each.language, each.role) == (language, "setup")]
    assert len(found) == 1
    return found[0]


def modules(folder: Path) -> None:
    """Installs both packages as a newcomer would."""
    packages = folder / "node_modules"
    packages.mkdir()
    sdk = ROOT / "tests/sdk/node/node_modules/node-appwrite"
    (packages / "node-appwrite").symlink_to(sdk, target_is_directory=True)
    (packages / "tidemark").symlink_to(ROOT / "clients/js", target_is_directory=True)


def go_program(code: str) -> str:
    """A whole program: the guide leaves out its imports and its frame."""
    known = ["context", "encoding/json", "errors", "fmt", "log", "os", "sort", "strings", "time"]
    body = setup("go") + "func main() {\n" + code + "}\n"
    used = [name for name in known if re.search(rf"\b{name.split('/')[-1]}\.", body)]
    imports = "".join(f'\t"{name}"\n' for name in [*used, "tidemark"])
    return f"package main\n\nimport (\n{imports})\n\n{body}"


def command(language: str, code: str, folder: Path) -> list[str]:
    """What runs a block, in a folder with what a newcomer has installed."""
    if language == "js":
        (folder / "task.mjs").write_text(setup("js") + code)
        return ["node", "task.mjs"]
    if language == "python":
        (folder / "task.py").write_text(setup("python") + code)
        return [sys.executable, "task.py"]
    if language == "go":
        client = ROOT / "clients/go"
        module = f"module task\n\ngo 1.19\n\nrequire tidemark v0.0.0\n\nreplace tidemark => {client}\n"
        (folder / "go.mod").write_text(module)
        (folder / "main.go").write_text(go_program(code))
        return [os.environ.get("TIDEMARK_GO", "go"), "run", "."]
    return ["sh", "-euc", setup("sh") + code]


class Shop:
    """The server of one way through the guide, and what its programs are given."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._folder = folder
        modules(folder)
        self._environment = {
            **os.environ,
            "ENDPOINT": server.endpoint,
            "PROJECT": server.project,
            "KEY": server.key,
            "IMPORTER": server.cli("key", "create", "--name", "importer")["secret"],
            "PYTHONPATH": str(ROOT / "clients/python/src"),
            "GOTOOLCHAIN": "local",
            "GOPROXY": "off",
            "GOFLAGS": "-mod=mod",
        }
        self._headers = {"x-appwrite-project": server.project, "x-appwrite-key": server.key}
        made = self._post("tablesdb", {"databaseId": "clock", "name": "Clock"}, {})
        assert made.status_code == 201, made.text

    def _post(self, path: str, body: object, headers: dict[str, str]) -> httpx.Response:
        url = f"{self._server.endpoint}/{path}"
        return httpx.post(url, json=body, headers={**self._headers, **headers})

    def go_to(self, date: str) -> None:
        """From now on it is nine o'clock of this day."""
        day = datetime.strptime(f"{date} 09", "%d %B %Y %H").replace(tzinfo=timezone.utc)
        clock = {"x-tidemark-clock": str(int(day.timestamp()) * 1_000_000)}
        answer = self._post("tidemark/databases/clock/heartbeat", {}, clock)
        assert answer.status_code == 200, answer.text

    def run(self, language: str, code: str) -> str:
        """What the block prints."""
        done = subprocess.run(
            command(language, code, self._folder),
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


def pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split(LEFT_OUT))


def assert_prints(printed: str, wanted: str, title: str) -> None:
    got, lines = printed.strip().split("\n"), wanted.strip().split("\n")
    assert len(got) == len(lines), f"{title}: {printed}"
    for one, line in zip(got, lines):
        assert re.fullmatch(pattern(line), one), f"{title}:\n{one}\nis not\n{line}"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    server = Server.start("--test-clock")
    try:
        yield Shop(server, tmp_path)
    finally:
        server.close()


def walk(language: str, shop: Shop, done: Callable[[str], None]) -> None:
    """Goes through the guide in one way, and says which sections' answers were right."""
    title, printed = "", ""
    for event in EVENTS:
        if event.title:
            title = event.title
        elif event.date:
            shop.go_to(event.date)
        elif event.role == "once":
            # Refusals are JSON as well, so that an answer's status is seen by its members.
            assert '"code":' not in shop.run("sh", event.code), title
        elif event.language == language and not event.role:
            printed = shop.run(language, event.code)
        elif event.language == ANSWERS[language]:
            assert_prints(printed, event.code, title)
            done(title)


@pytest.mark.parametrize("language", ANSWERS)
def test_the_guide_does_what_it_says(language: str, shop: Shop) -> None:
    sections: list[str] = []
    walk(language, shop, sections.append)
    assert sections == TITLES[1:]
    assert len(sections) == 10


def test_what_is_left_out_of_an_answer_is_all_that_may_differ() -> None:
    assert_prints('{"a":1,"b":2}\n', '{"a":…,"b":2}', "t")
    with pytest.raises(AssertionError):
        assert_prints('{"a":1,"b":3}', '{"a":…,"b":2}', "t")
    with pytest.raises(AssertionError, match="t: x"):
        assert_prints("x\ny\n", "x", "t")
