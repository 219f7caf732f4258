"""``python -m tidemark_cache``: looks at the cache file that processes share, or clears it."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

from tidemark_cache import _invalidation, _namespaces, _native, _tiers, _watching
from tidemark_cache._tiers import FileBackend

_EXAMPLES = """examples:
  python -m tidemark_cache inspect
  python -m tidemark_cache watch --folder /var/cache/shop --interval 5
  python -m tidemark_cache clear --namespace shop --tag "user 7"

Without --folder it is tidemark-cache in $XDG_CACHE_HOME or ~/.cache, as for backend="file".
"""
_COMMANDS = {
    "inspect": "say how many entries the file has, and how full it is",
    "verify": "as inspect, and fail if an entry is damaged",
    "clear": "forget every entry, or those of namespaces and tags, in all processes",
    "watch": "show hits and misses of all processes that use the file, until Ctrl-C",
}
_INTERVAL_S = (0.1, 3_600.0)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tidemark_cache",
        description="Looks at the cache file that processes share, or clears it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, what in _COMMANDS.items():
        command = commands.add_parser(name, help=what, description=f"{what.capitalize()}.")
        command.add_argument(
            "--folder", type=_folder, help="the folder of the file, if not the default one"
        )
        if name == "clear":
            command.add_argument(
                "--namespace", action="append", default=[], type=_namespace,
                help="only entries of this namespace",
            )  # fmt: skip
            command.add_argument(
                "--prefix", action="append", default=[], type=_prefix,
                help="only those of each namespace that begins so: see invalidate_namespace",
            )  # fmt: skip
            command.add_argument(
                "--tag", action="append", default=[], help="only entries under this tag"
            )
        if name == "watch":
            command.add_argument(
                "--interval", type=_seconds, default=2.0, help="seconds between two looks (2)"
            )
            command.add_argument(
                "--count", type=_count, help="looks after which it ends (no end)"
            )
    return parser.parse_args(words)


def _folder(text: str) -> str:
    return _checked(text, lambda: FileBackend(folder=text))


def _namespace(text: str) -> str:
    return _checked(text, lambda: _namespaces.names_to_forget(_namespaces.checked(text), False))


def _prefix(text: str) -> str:
    return _checked(text, lambda: _namespaces.names_to_forget(_namespaces.checked(text), True))


def _checked(text: str, check: Callable[[], object]) -> str:
    """Before the first of several is carried out."""
    try:
        check()
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _seconds(text: str) -> float:
    least, most = _INTERVAL_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not least <= seconds <= most:
        raise argparse.ArgumentTypeError(f"must be seconds from {least} to {most:.0f}")
    return seconds


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:10]) <= 10**9):
        raise argparse.ArgumentTypeError("must be a whole number from 1")
    return int(text)


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command; its exit status."""
    arguments = _arguments(words)
    backend = FileBackend(folder=arguments.folder)
    path = _tiers.path_of(backend)
    # Before the file is opened: opening would make one.
    if not os.path.exists(path):
        print(
            f"{path}: there is no cache file. A function with backend=\"file\" makes it at its "
            "first call; --folder names another folder.",
            file=sys.stderr,
        )
        return 1
    if arguments.command == "watch":
        return _watch(backend, arguments.interval, arguments.count)
    tier = _tiers.file_of(backend)
    try:
        survey = tier.survey()
        if survey is None:
            print(f"{path} is no cache file of this start of the host", file=sys.stderr)
            return 1
        if arguments.command == "clear":
            return _clear(backend, tier, arguments)
    except _native.TierFailure as failure:
        print(failure.args[-1], file=sys.stderr)
        return 1
    print(path)
    for name, number in survey:
        print(f"{name}: {number}")
    return 1 if arguments.command == "verify" and dict(survey)["damaged"] else 0


def _clear(backend: FileBackend, tier: _native.SharedFile, arguments: argparse.Namespace) -> int:
    if not (arguments.namespace or arguments.prefix or arguments.tag):
        tier.clear()
        return 0
    named = [(name, False) for name in arguments.namespace]
    named += [(name, True) for name in arguments.prefix]
    done = [
        _invalidation.invalidate_namespace(name, prefix=prefix, backend=backend)
        for name, prefix in named
    ]
    done.append(_invalidation.invalidate_tags(*arguments.tag, backend=backend))
    # What failed was logged to standard error.
    return 0 if all(done) else 1


def _watch(backend: FileBackend, interval_s: float, count: int | None) -> int:
    looks = 0
    before: _watching.Counted = {}
    clears = sys.stdout.isatty()
    try:
        while True:
            now = _watching.counted(backend)
            # The first look has nothing to compare with: it shows what was counted so far.
            lines = _watching.table(now, before)
            if not now:
                lines = ["no process that uses the file has counted anything yet"]
            print("\x1b[H\x1b[2J" if clears else "", end="")
            print(*lines, sep="\n", flush=True)
            before = now
            looks += 1
            if looks == count:
                return 0
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        # The reader of the pipe has ended. Python flushes once more as it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"the counts cannot be read: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
