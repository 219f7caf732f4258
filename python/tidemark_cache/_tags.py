"""Tags, and the names that tiers know them by."""


def checked(tag: object) -> str:
    """The tag, if it is one."""
    if not isinstance(tag, str):
        raise TypeError(f"a tag must be a str, not {type(tag).__name__}")
    return tag


def name_of(tag: str) -> bytes:
    """The 32 bytes that stand for a tag in a tier and in a notice."""
    from hashlib import blake2b

    return blake2b(tag.encode("utf-8", "surrogatepass"), digest_size=32, person=b"tag").digest()
