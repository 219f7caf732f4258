"""``python -m tidemark_cache``: looks at the cache file that processes share, or clears it."""

import argparse
import os
import sys

from tidemark_cache import _native, _tiers
from tidemark_cache._tiers import FileBackend


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tidemark_cache", description=__doc__)
    commands = {
        "inspect": "says what is in the file",
        "verify": "as inspect, and fails if an entry is damaged",
        "clear": "forgets every entry, in all processes",
    }
    said = "; ".join(f"{name} {what}" for name, what in commands.items())
    parser.add_argument("command", choices=commands, help=said)
    parser.add_argument("--folder", help="the folder of the file, if it is not the default one")
    return parser.parse_args()


def main() -> int:
    """Runs one command; its exit status."""
    arguments = _arguments()
    backend = FileBackend(folder=arguments.folder)
    path = _tiers.path_of(backend)
    # Before the file is opened: opening would make one.
    if not os.path.exists(path):
        print(f"{path}: there is no cache file", file=sys.stderr)
        return 1
    tier = _tiers.file_of(backend)
    try:
        survey = tier.survey()
        if survey is None:
            print(f"{path} is no cache file of this start of the host", file=sys.stderr)
            return 1
        if arguments.command == "clear":
            tier.clear()
            return 0
    except _native.TierFailure as failure:
        print(failure.args[-1], file=sys.stderr)
        return 1
    print(path)
    for name, number in survey:
        print(f"{name}: {number}")
    return 1 if arguments.command == "verify" and dict(survey)["damaged"] else 0


if __name__ == "__main__":
    sys.exit(main())
