"""The guide of ten tasks, as it stands there: each of its four ways, on the dates it names."""

from __future__ import annotations

import pytest
from guide import ANSWERS, Guide, Shop, assert_prints, walk

GUIDE = Guide("docs/guides/ten-tasks.md")


@pytest.mark.parametrize("language", ANSWERS)
def test_the_guide_does_what_it_says(language: str, shop: Shop) -> None:
    shop.add_key("importer")
    sections: list[str] = []
    walk(GUIDE, language, shop, sections.append)
    assert sections == GUIDE.titles[1:]
    assert len(sections) == 10


def test_what_is_left_out_of_an_answer_is_all_that_may_differ() -> None:
    assert_prints('{"a":1,"b":2}\n', '{"a":…,"b":2}', "t")
    with pytest.raises(AssertionError):
        assert_prints('{"a":1,"b":3}', '{"a":…,"b":2}', "t")
    with pytest.raises(AssertionError, match="t: x"):
        assert_prints("x\ny\n", "x", "t")
