"""What processes count beside a cache file, and the tool that shows it."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

from tidemark_cache import FileBackend, __main__, _watching

PROGRAM = """
import sys
from tidemark_cache import FileBackend, cache
@cache(backend=FileBackend(folder=sys.argv[1], megabytes=8), namespace="w", version=1)
def prices(number):
    return [number]
for line in sys.stdin:
    print(prices(int(line)), flush=True)
"""


def start(folder: pathlib.Path) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", PROGRAM, str(folder)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def call(process: "subprocess.Popen[str]", number: int) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()
    assert process.stdout.readline() == f"[{number}]\n"


def ran(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tidemark_cache", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_processes_show_what_they_count_until_they_end(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "cache"
    backend = FileBackend(folder=folder)
    processes = [start(folder), start(folder)]
    for number in (1, 1, 2):
        call(processes[0], number)
    call(processes[1], 1)
    end = time.monotonic() + 60
    name = "__main__.prices"

    def total() -> _watching.Watched:
        total = _watching.Watched()
        for (_, function), watched in _watching.counted(backend).items():
            assert function == name
            total = total.plus(watched)
        return total

    while total() != _watching.Watched(memory=1, tier=1, misses=2):
        assert time.monotonic() < end, total()
        time.sleep(0.01)
    shown = ran("watch", "--folder", str(folder), "--count", "1")
    assert shown.returncode == 0 and shown.stderr == ""
    lines = shown.stdout.splitlines()
    assert lines[0] == "2 processes"
    assert lines[1].split() == "function calls memory file misses ratio in all".split()
    assert lines[2].split() == [name, "4", "1", "1", "2", "50.0%", "50.0%"]
    processes[0].kill()
    processes[0].wait()
    processes[1].communicate()
    # Who was killed could not take its counts away.
    left = _watching.counted(backend)
    assert list(left.values()) == [_watching.Watched(memory=1, tier=0, misses=2)]
    (path,) = folder.glob("*.counts")
    os.utime(path, (1, 1))
    assert _watching.counted(backend) == {} and not path.exists()


def test_watch_shows_what_is_new_since_its_last_look() -> None:
    key = ("a", "shop.prices")
    before = {key: _watching.Watched(10, 0, 10)}
    other = ("b", "shop.\x1b[2Jnames")
    now = {key: _watching.Watched(40, 0, 20), other: _watching.Watched(0, 3, 0)}
    lines = _watching.table(now, before)
    assert lines[0] == "2 processes"
    assert lines[2].split() == ["shop.prices", "40", "30", "0", "10", "75.0%", "66.7%"]
    assert lines[3].split() == ["shop.?[2Jnames", "3", "0", "3", "0", "100.0%", "100.0%"]
    assert _watching.table({key: _watching.Watched()}, {})[2].split()[-2:] == ["-", "-"]
    # A process that began again under the same name counts from zero.
    assert _watching.Watched(1, 2, 3).since(_watching.Watched(9, 0, 3)) == (0, 2, 0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"counts": 7}',
        b'{"counts": {"f": [1, 2]}}',
        b'{"counts": {"f": [1, 2, "3"]}}',
        b'{"counts": {"f": [1, 2, -3]}}',
        b'{"counts": {"f": [1, 2, true]}}',
        b'{"counts": {"f": [1, 2, 1e400]}}',
        b'{"counts": {"f": [1, 2, %d]}}' % 10**30,
        b'{"counts": {"f": [1, 2, 3]}}' + b" " * (1 << 20),
    ],
)
def test_counts_that_cannot_be_read_are_none(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "x.counts").write_bytes(content)
    outside = tmp_path / "outside"
    outside.write_text('{"counts": {"f": [1, 2, 3]}}')
    (tmp_path / "link.counts").symlink_to(outside)
    (tmp_path / "folder.counts").mkdir()
    (tmp_path / "good.counts").write_text(json.dumps({"counts": {"f": [1, 2, 3]}}))
    found = _watching.counted(FileBackend(folder=tmp_path))
    assert found == {("good.counts", "f"): (1, 2, 3)}


def test_counts_are_written_when_they_change_and_follow_no_link(tmp_path: pathlib.Path) -> None:
    backend = FileBackend(folder=tmp_path)
    file = _watching.CountsFile(backend, "p")
    file.write({"f": _watching.Watched(1, 2, 3)})
    path = tmp_path / "p.counts"
    assert path.stat().st_mode & 0o777 == 0o600
    number = path.stat().st_ino
    file.write({"f": _watching.Watched(1, 2, 3)})
    assert path.stat().st_ino == number
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "p.counts.new").symlink_to(target)
    file.write({"f": _watching.Watched(2, 2, 3)})
    assert target.read_text() == "mine"
    file.remove()
    file.remove()
    assert not path.exists()


def test_tool_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        __main__.main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for word in ("inspect", "verify", "clear", "watch", "examples:", "--folder"):
        assert word in said
    for words, why in [
        ([], "COMMAND"),
        (["look"], "invalid choice: 'look'"),
        (["watch", "--interval", "0"], "must be seconds from 0.1 to 3600"),
        (["watch", "--interval", "soon"], "must be seconds"),
        (["watch", "--interval", "nan"], "must be seconds"),
        (["watch", "--count", "-1"], "must be a whole number from 1"),
        (["watch", "--count", "9" * 100], "must be a whole number from 1"),
        (["inspect", "--interval", "1"], "unrecognized arguments"),
        (["inspect", "--folder", ""], "folder must have at least one character"),
        (["clear", "--namespace", ""], "namespace must have from 1 to 200 characters"),
        (["clear", "--prefix", "a.b.c.d.e"], "a prefix may have 4"),
    ]:
        with pytest.raises(SystemExit) as ended:
            __main__.main(words)
        assert ended.value.code == 2
        assert why in capsys.readouterr().err


def test_tool_says_that_there_is_no_file(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("inspect", "verify", "clear", "watch"):
        assert __main__.main([command, "--folder", str(tmp_path / "none")]) == 1
        said = capsys.readouterr()
        assert said.out == "" and "there is no cache file" in said.err
        assert not (tmp_path / "none").exists()


def test_pipe_among_the_counts_is_passed_over(tmp_path: pathlib.Path) -> None:
    backend = FileBackend(folder=tmp_path)
    os.mkfifo(tmp_path / "a.counts")
    _watching.CountsFile(backend, "b").write({"f": _watching.Watched(1, 2, 3)})
    assert _watching.counted(backend) == {("b.counts", "f"): _watching.Watched(1, 2, 3)}


def test_watch_ends_when_nobody_reads_it(tmp_path: pathlib.Path) -> None:
    process = start(tmp_path)
    call(process, 1)
    words = [sys.executable, "-m", "tidemark_cache", "watch", "--folder", str(tmp_path)]
    watch = subprocess.Popen([*words, "--interval", "0.1"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    assert watch.stdout is not None and watch.stderr is not None
    assert watch.stdout.readline()
    watch.stdout.close()
    assert watch.wait(60) == 0
    assert watch.stderr.read() == b""
    watch.stderr.close()
    process.communicate()
