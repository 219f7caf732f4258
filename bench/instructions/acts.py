"""The requests that are counted, on small tables."""

import json
import urllib.parse
from collections.abc import Callable

from served import Call

ROWS = 200
TABLE = "/tablesdb/d/tables/t"
#: A table of the same columns and indexes, of which no history is kept.
BARE_TABLE = "/tablesdb/d/tables/b"

#: Sends one request.
Act = Callable[[], object]


def fill(call: Call) -> None:
    """Two tables with an index of each kind, and their rows; of one no history is kept."""
    call("POST", "/tablesdb", {"databaseId": "d", "name": "d"})
    columns = [
        {"key": "n", "type": "integer", "required": False},
        {"key": "s", "type": "string", "size": 64, "required": False},
    ]
    indexes = [
        {"key": "i", "type": "key", "attributes": ["n"]},
        {"key": "u", "type": "unique", "attributes": ["s"]},
    ]
    for path in (TABLE, BARE_TABLE):
        name = path.rpartition("/")[2]
        table = {"tableId": name, "name": name, "columns": columns, "indexes": indexes}
        call("POST", "/tablesdb/d/tables", table)
        for number in range(ROWS):
            insert(call, number, path)
    call("PATCH", "/tidemark/databases/d/tables/b/options", {"history": "none"})


def insert(call: Call, number: int, path: str = TABLE) -> None:
    """A row of two columns."""
    data = {"n": number, "s": f"text {number}"}
    call("POST", f"{path}/rows", {"rowId": f"r{number}", "data": data})


def change(call: Call, number: int, path: str = TABLE) -> None:
    """Another value of one column."""
    call("PATCH", f"{path}/rows/r5", {"data": {"n": number}})


def listing(*queries: dict[str, object]) -> str:
    """The path of a list."""
    texts = [urllib.parse.quote(json.dumps(query)) for query in queries]
    parts = [f"queries[{place}]={text}" for place, text in enumerate(texts)]
    return f"{TABLE}/rows?" + "&".join(parts)


SORTED_25 = listing(
    {"method": "greaterThanEqual", "attribute": "n", "values": [50]},
    {"method": "orderAsc", "attribute": "n"},
    {"method": "limit", "values": [25]},
)


def get(call: Call, path: str) -> Act:
    """A read."""
    return lambda: call("GET", path)


def both_caches(call: Call) -> dict[str, Act]:
    """What is counted with the list cache off, and with it on, by its name."""
    numbers = iter(range(1_000, 1_000_000))
    by_key = listing({"method": "equal", "attribute": "s", "values": ["text 7"]})
    return {
        "row by its id": lambda: call("GET", f"{TABLE}/rows/r7"),
        "25 rows by an index": lambda: call("GET", SORTED_25),
        "25 rows, no query": lambda: call("GET", listing()),
        "row by a unique key": lambda: call("GET", by_key),
        "insert": lambda: insert(call, next(numbers)),
        "change": lambda: change(call, next(numbers)),
    }


def each_kind(call: Call) -> dict[str, Act]:
    """One request of each kind, by its name: those that alter rows are the last ones."""
    numbers = iter(range(1_000, 1_000_000))
    keys = {"tableId": "t", "index": "u", "keys": [f"text {number}" for number in range(100)]}
    ids = {"tableId": "t", "ids": [f"r{number}" for number in range(100)]}
    batch = "/tidemark/databases/d/batch/reads"
    past_cache = {"x-tidemark-cache": "bypass"}

    def not_modified() -> Act:
        # Its tag is that of the list as it is now, once.
        tag: list[str] = []

        def act() -> None:
            if not tag:
                tag.append(call("GET", SORTED_25)["etag"])
            call("GET", SORTED_25, headers={"if-none-match": tag[0]}, status=304)

        return act

    return {
        "point": lambda: call("GET", f"{TABLE}/rows/r7"),
        "cold list of 25": lambda: call("GET", SORTED_25, headers=past_cache),
        "exact hit": lambda: call("GET", SORTED_25),
        "304": not_modified(),
        "TTL hit": lambda: call("GET", SORTED_25 + "&ttl=3600"),
        "batch of 100 keys": lambda: call("POST", batch, {"reads": [keys]}),
        "batch of 100 ids": lambda: call("POST", batch, {"reads": [ids]}),
        "insert": lambda: insert(call, next(numbers)),
        "change": lambda: change(call, next(numbers)),
        "change, no history": lambda: change(call, next(numbers), BARE_TABLE),
    }
