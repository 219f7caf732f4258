"""Pages whose commands are run as they stand there, on the dates they name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import httpx
from server import Server

ROOT = Path(__file__).parents[2]
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


class Guide:
    """A page, as the steps that it consists of."""

    def __init__(self, path: str) -> None:
        page = (ROOT / path).read_text()
        self.events = [Event(**found.groupdict()) for found in _EVENT.finditer(page)]
        self.titles = [event.title for event in self.events if event.title]

    def setup(self, language: str) -> str:
        """What every program in this language begins with."""
        found = [
            each.code for each in self.events if (each.language, each.role) == (language, "setup")
        ]
        assert len(found) == 1
        return found[0]


def modules(folder: Path) -> None:
    """Installs both packages as a newcomer would."""
    packages = folder / "node_modules"
    packages.mkdir()
    sdk = ROOT / "tests/sdk/node/node_modules/node-appwrite"
    (packages / "node-appwrite").symlink_to(sdk, target_is_directory=True)
    (packages / "tidemark").symlink_to(ROOT / "clients/js", target_is_directory=True)


def go_program(setup: str, code: str) -> str:
    """A whole program: the guide leaves out its imports and its frame."""
    known = ["context", "encoding/json", "errors", "fmt", "log", "os", "sort", "strings", "time"]
    body = setup + "func main() {\n" + code + "}\n"
    used = [name for name in known if re.search(rf"\b{name.split('/')[-1]}\.", body)]
    imports = "".join(f'\t"{name}"\n' for name in [*used, "tidemark"])
    return f"package main\n\nimport (\n{imports})\n\n{body}"


def command(language: str, setup: str, code: str, folder: Path) -> list[str]:
    """What runs a block, in a folder with what a newcomer has installed."""
    if language == "js":
        (folder / "task.mjs").write_text(setup + code)
        return ["node", "task.mjs"]
    if language == "python":
        (folder / "task.py").write_text(setup + code)
        return [sys.executable, "task.py"]
    if language == "go":
        client = ROOT / "clients/go"
        module = f"module task\n\ngo 1.19\n\nrequire tidemark v0.0.0\n\nreplace tidemark => {client}\n"
        (folder / "go.mod").write_text(module)
        (folder / "main.go").write_text(go_program(setup, code))
        return [os.environ.get("TIDEMARK_GO", "go"), "run", "."]
    return ["sh", "-euc", setup + code]


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

    def add_key(self, name: str) -> None:
        """A further key of the project; programs find its secret in the variable of its name."""
        secret = self._server.cli("key", "create", "--name", name)["secret"]
        self._environment[name.upper()] = secret

    def go_to(self, date: str) -> None:
        """From now on it is nine o'clock of this day."""
        day = datetime.strptime(f"{date} 09", "%d %B %Y %H").replace(tzinfo=timezone.utc)
        clock = {"x-tidemark-clock": str(int(day.timestamp()) * 1_000_000)}
        answer = self._post("tidemark/databases/clock/heartbeat", {}, clock)
        assert answer.status_code == 200, answer.text

    def run(self, guide: Guide, language: str, code: str) -> str:
        """What the block prints."""
        done = subprocess.run(
            command(language, guide.setup(language), code, self._folder),
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


def walk(guide: Guide, language: str, shop: Shop, done: Callable[[str], None]) -> None:
    """Goes through the guide in one way, and says which sections' answers were right."""
    title, printed = "", ""
    for event in guide.events:
        if event.title:
            title = event.title
        elif event.date:
            shop.go_to(event.date)
        elif event.role == "once":
            # Refusals are JSON as well, so that an answer's status is seen by its members.
            assert '"code":' not in shop.run(guide, "sh", event.code), title
        elif event.language == language and not event.role:
            printed = shop.run(guide, language, event.code)
        elif event.language == ANSWERS[language]:
            assert_prints(printed, event.code, title)
            done(title)
