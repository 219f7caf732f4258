"""Namespaces, and the names that tiers know them and their beginnings by."""

#: A namespace may have parts: what ends at one of these is a prefix that reaches every process.
SEPARATORS = ".:/ "
#: Each is one more token that a call reads: so many prefixes of a namespace reach every process.
PREFIXES_MAX = 4
NAMESPACE_MAX = 200

_NAME_BYTES = 32


def checked(namespace: object) -> str:
    """The namespace, if it may be one."""
    if not isinstance(namespace, str):
        raise TypeError(f"namespace must be a str, not {type(namespace).__name__}")
    if not 1 <= len(namespace) <= NAMESPACE_MAX:
        raise ValueError(
            f"namespace must have from 1 to {NAMESPACE_MAX} characters, not {len(namespace)}"
        )
    return namespace


def _name_of(kind: bytes, text: str) -> bytes:
    from hashlib import blake2b

    return blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=_NAME_BYTES, person=kind
    ).digest()


def names_of(namespace: str | None) -> bytes:
    """What every entry of a function in this namespace depends on in a tier."""
    if namespace is None:
        return b""
    ends = [place + 1 for place, letter in enumerate(namespace) if letter in SEPARATORS]
    prefixes = [_name_of(b"prefix", namespace[:end]) for end in ends[:PREFIXES_MAX]]
    return _name_of(b"namespace", namespace) + b"".join(prefixes)


def names_to_forget(namespace: str, prefix: bool) -> bytes:
    """The names of which those of each namespace that is meant have one.

    A prefix that ends with a separator means what begins so. Any other means itself and what goes
    on with a separator: a tier does not know where else a name may be divided.
    """
    if not prefix:
        return _name_of(b"namespace", namespace)
    is_whole = namespace[-1] in SEPARATORS
    depth = sum(letter in SEPARATORS for letter in namespace) + (not is_whole)
    if depth > PREFIXES_MAX:
        raise ValueError(
            f"prefix {namespace!r} has too many parts: a prefix may have {PREFIXES_MAX}, each "
            f"ended by one of {SEPARATORS!r}"
        )
    if is_whole:
        return _name_of(b"prefix", namespace)
    below = [_name_of(b"prefix", namespace + letter) for letter in SEPARATORS]
    return _name_of(b"namespace", namespace) + b"".join(below)
