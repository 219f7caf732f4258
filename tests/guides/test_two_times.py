"""The tutorial of the two times, as it stands there."""

from __future__ import annotations

from guide import Guide, Shop, walk

GUIDE = Guide("docs/tutorial-two-times.md")


def test_the_tutorial_does_what_it_says(shop: Shop) -> None:
    sections: list[str] = []
    walk(GUIDE, "sh", shop, sections.append)
    stories = [title for title in GUIDE.titles if title != "What next"]
    assert list(dict.fromkeys(sections)) == stories
    assert len(stories) == 9
