"""The guide's first session does what its comments say."""

import asyncio
import pathlib
import re
from typing import Any

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "python-cache.md"


def test_first_session_of_the_guide_runs() -> None:
    section = GUIDE.read_text().split("## A first session")[1]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert program is not None
    names: dict[str, Any] = {"__name__": "guide"}
    *definitions, calls = program[1].strip().split("\n\n")
    exec("\n\n".join(definitions), names)
    for line in calls.splitlines():
        call, _, said = line.partition("#")
        answer = eval(call, names)
        if said.strip() != "one run":
            assert repr(answer) == said.split(":")[0].strip()
    assert names["area"].cache_info().misses == 1
    assert asyncio.run(names["fetch"](1)) == {"number": 1}
    assert names["Shop"]().price("tea") == ["tea"]
