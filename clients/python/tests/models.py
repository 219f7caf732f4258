"""The models that several tests use."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from tidemark import Model, Size, index, reference, unique


@dataclass
class Author(Model, table="authors"):
    name: Annotated[str, Size(100)]
    mail: str
    by_mail = unique("mail")


@dataclass
class Book(Model, table="books"):
    title: Annotated[str, Size(200)]
    author: str | None = None
    shelf: str = ""
    slot: int = 0
    price: float | None = None
    printed: datetime | None = None
    is_lent: bool = False
    tags: list[str] = field(default_factory=list)
    by_place = unique("shelf", "slot")
    by_title = index("title")
    by_author = reference("author", Author)
