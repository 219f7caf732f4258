"""What callgrind has counted: instructions, system calls, allocations, and in which layer."""

import dataclasses
import re
from collections import Counter

#: Names of files and functions, of which the first that fits names a layer.
LAYERS = (
    ("allocator", r"/(lib)?mimalloc|/malloc/|^_?mi_|^(__libc_)?(malloc|calloc|realloc|free)$"),
    ("SQLite", r"sqlite3"),
    ("runtime", r"/(tokio|mio)-\d|^<?(tokio|mio)::"),
    ("HTTP library", r"/(hyper|hyper-util|http|http-body|http-body-util|httparse|bytes)-\d"
     r"|^<?(hyper|hyper_util|http|http_body|http_body_util|httparse|bytes)::"),
    ("server", r"crates/(server|tidemark)/|^<?(server|tidemark)::"),
    ("engine", r"crates/(engine|model)/|^<?(engine|model)::"),
    ("list cache", r"crates/(list-cache|cache)/|/quick_cache-\d"
     r"|^<?(list_cache|cache|quick_cache)::"),
    ("query", r"crates/query/|^<?query::"),
    ("store", r"crates/store/|/rusqlite-\d|^<?(store|rusqlite)::"),
    ("JSON", r"/(serde|serde_json|serde_core|sonic-[a-z]+)-\d"
     r"|^<?(serde|serde_json|sonic_[a-z]+)::"),
    ("hashes", r"/(twox-hash|ahash|hashbrown|foldhash|ring)-\d|^<?(twox_hash|ahash|hashbrown)::"),
    ("copies and comparisons", r"mem(cpy|move|set|cmp|chr)|/multiarch/|str(len|cmp)"),
)
#: Code of the standard library that is not inlined, and what no pattern names.
OTHERS = "standard library, others"

#: Functions that give memory, by their names in mimalloc and in the C library.
GIVES = re.compile(r"^(mi_)?(heap_)?(malloc|zalloc|calloc|realloc|rezalloc)(_aligned|_small)?$")
#: Functions of an allocator, whose calls of each other are none of the program's.
INNER = re.compile(r"^_?mi_|^(malloc|calloc|realloc|free|_int_\w+|sysmalloc\w*|tcache_\w+)$")

#: Reads a clock. Under valgrind each of them is a system call; elsewhere the kernel's vDSO answers.
CLOCK = re.compile(r"clock_gettime")

NAMED = re.compile(r"^(ob|fl|fi|fe|fn|cob|cfi|cfl|cfn)=(?:\((\d+)\) ?)?(.*)$")


@dataclasses.dataclass
class Counted:
    """Of so many requests."""

    instructions: float
    system_calls: float
    allocations: float
    #: Instructions by layer.
    layers: Counter[str]
    #: Instructions by function, for who looks further.
    functions: Counter[str]

    def of_one(self, requests: int) -> "Counted":
        """Of one of them."""
        shared = ({name: n / requests for name, n in counter.items()}
                  for counter in (self.layers, self.functions))
        layers, functions = (Counter(counter) for counter in shared)
        totals = (self.instructions, self.system_calls, self.allocations)
        return Counted(*(n / requests for n in totals), layers, functions)


def read(dump: str) -> Counted:
    """A file of callgrind (format: https://valgrind.org/docs/manual/cl-format.html)."""
    counted = Counted(0, 0, 0, Counter(), Counter())
    names: dict[str, dict[str, str]] = {"ob": {}, "f": {}, "fn": {}}
    at = {"f": "", "inlined": "", "fn": "", "cfn": ""}
    events: list[str] = []
    skips = False
    for line in dump.splitlines():
        if named := NAMED.match(line):
            what, number, text = named.groups()
            kind = what[-2:] if what.endswith(("ob", "fn")) else "f"
            table = names[kind]
            if number is not None:
                text = table.setdefault(number, text) if text else table.get(number, "")
            if what == "fn":
                at["fn"], at["inlined"] = text, at["f"]
            elif what == "fl":
                at["f"] = at["inlined"] = text
            elif what in ("fi", "fe"):
                at["inlined"] = text
            elif what == "cfn":
                at["cfn"] = text
        elif line.startswith("calls="):
            skips = True
            if is_given(at["fn"], at["cfn"]):
                counted.allocations += int(line[6:].split()[0])
        elif line.startswith("events:"):
            events = line.split()[1:]
        elif line[:1] in tuple("0123456789+-*"):
            if skips:
                skips = False
                continue
            costs = dict(zip(events, map(int, line.split()[1:])))
            cost = costs.get("Ir", 0)
            counted.instructions += cost
            if not CLOCK.search(at["fn"]):
                counted.system_calls += costs.get("sysCount", 0)
            counted.layers[layer(at["inlined"], at["f"], at["fn"])] += cost
            counted.functions[at["fn"]] += cost
    return counted


def is_given(caller: str, callee: str) -> bool:
    """Whether the program asks for memory by this call."""
    return bool(GIVES.match(callee)) and not INNER.match(caller)


def layer(*names: str) -> str:
    """The layer of code that stands in a file, inlined into a function of another."""
    for name in names:
        for known, pattern in LAYERS:
            if re.search(pattern, name):
                return known
    return OTHERS
