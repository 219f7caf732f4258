"""``python -m tidemark cache``: the tool of the function cache, a package of its own."""

import sys
from collections.abc import Sequence

_USAGE = "usage: python -m tidemark cache {inspect,verify,clear,watch} …"


def main(words: Sequence[str]) -> int:
    """Runs one command; its exit status."""
    if list(words[:1]) != ["cache"]:
        print(_USAGE, file=sys.stderr)
        return 2
    try:
        from tidemark_cache.__main__ import (  # type: ignore[import-not-found,unused-ignore]
            main as main_of_cache,
        )
    except ImportError:
        print("tidemark cache needs `pip install 'tidemark[cache]'`", file=sys.stderr)
        return 2
    status: int = main_of_cache(words[1:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
