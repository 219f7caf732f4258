"""Methods, the collector, destructors, lifetimes, and the surface of the decorator."""

import asyncio
import copy
import gc
import inspect
import os
import pickle
import random
import subprocess
import sys
import sysconfig
import threading
import time
import weakref
from datetime import timedelta
from typing import Any

import pytest
from test_freshness import until

from tidemark_cache import CacheCounts, cache, invalidate_tags


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = 0

    @cache
    def price(self, item: str, count: int = 1) -> str:
        """The price."""
        self.runs += 1
        return f"{self.name}/{item}/{count}"

    @cache(copy="share")
    def itself(self) -> "Shop":
        return self

    @cache
    async def stock(self, item: str) -> str:
        return f"{self.name}/{item}"

    @classmethod
    @cache
    def of_class(cls, number: int) -> list[Any]:
        return [cls.__name__, number]

    @cache
    @staticmethod
    def of_nothing(number: int) -> int:
        return number + 1


@cache
def module_level(number: int) -> int:
    """Says it."""
    return number


def test_method_keeps_answers_by_instance() -> None:
    one, other = Shop("one"), Shop("other")
    assert [one.price("tea"), one.price(item="tea"), other.price("tea", count=1)] == [
        "one/tea/1",
        "one/tea/1",
        "other/tea/1",
    ]
    assert (one.runs, other.runs) == (1, 1)
    assert Shop.price(one, "tea") == "one/tea/1" and one.runs == 1
    assert one.price.cache_info().currsize == 1
    assert one.price.invalidate_cache("tea") and not one.price.invalidate_cache("tea")
    assert one.price("tea") and one.runs == 2
    one.price.cache_clear()
    assert (one.price.cache_info().currsize, other.price.cache_info().currsize) == (0, 1)
    Shop.price.cache_clear()
    assert other.price("tea") and other.runs == 2
    assert asyncio.run(one_and_other(one, other)) == ["one/x", "one/x", "other/x"]
    assert [Shop.of_class(1), Shop("").of_class(1), Shop.of_nothing(1)] == [["Shop", 1]] * 2 + [2]
    assert Shop("").of_nothing(1) == 2


async def one_and_other(one: Shop, other: Shop) -> list[str]:
    return [await one.stock("x"), await one.stock("x"), await other.stock("x")]


def test_copied_and_pickled_instances_see_no_others_answers() -> None:
    one = Shop("one")
    one.price("tea")
    for make in (copy.copy, copy.deepcopy, lambda shop: pickle.loads(pickle.dumps(shop))):
        other = make(one)
        other.name = "other"
        assert other.price("tea") == "other/tea/1"
        assert one.price("tea") == "one/tea/1"
        again = make(other)
        again.name = "again"
        assert again.price("tea") == "again/tea/1"


def test_instance_at_the_address_of_one_that_ended_sees_none_of_its_answers() -> None:
    addresses, kept = [], []
    for number in range(2_000):
        shop = Shop(str(number))
        assert shop.price("tea") == shop.price("tea") == f"{number}/tea/1"
        addresses.append(id(shop))
        # What the instance leaves behind has its table in it.
        kept.append(vars(shop))
        del shop
    assert len(set(addresses)) < len(addresses), "no address was used again"


def test_instance_with_another_dict_has_what_was_invalidated_in_neither() -> None:
    shop = Shop("one")
    first, second = vars(shop), dict(vars(shop))
    assert shop.price("tea") == "one/tea/1"
    shop.__dict__ = second
    assert shop.price("tea") == shop.price("tea")
    for folder in (first, second, first):
        shop.__dict__ = folder
        shop.price.invalidate_cache("tea")
        runs = shop.runs
        assert shop.price("tea") == shop.price("tea")
        assert shop.runs == runs + 1
    vars(shop).clear()
    shop.name, shop.runs = "two", 0
    assert shop.price("tea") == "two/tea/1"


def test_destructor_of_an_answer_may_call_the_method_while_its_table_ends() -> None:
    class Answer:
        def __init__(self, of: "Maker") -> None:
            self.of = of

        def __del__(self) -> None:
            self.of.seen.append(self.of.make(1))

    class Maker:
        def __init__(self) -> None:
            self.seen: list[object] = []

        @cache(copy="share")
        def make(self, number: int) -> object:
            return number if self.seen or self.ends else Answer(self)

        ends = False

    for _ in range(100):
        maker = Maker()
        maker.make(1)
        maker.ends = True
        slots = [name for name in vars(maker) if name not in ("seen", "ends")]
        for name in slots:
            del vars(maker)[name]
        assert maker.seen == [1]
        assert maker.make(1) == 1


def test_table_of_another_method_in_the_place_of_its_own_is_of_no_use_after_its_end() -> None:
    class Two:
        @cache
        def first(self, number: int) -> str:
            return f"first {number}"

        @cache
        def second(self, number: int) -> str:
            return f"second {number}"

    for _ in range(200):
        two = Two()
        assert (two.first(1), two.second(1)) == ("first 1", "second 1")
        one, other = list(vars(two))
        vars(two)[other] = vars(two)[one]
        two.second(1)
        vars(two).clear()
        assert (two.first(2), two.second(2)) == ("first 2", "second 2")


def test_instances_whose_answers_refer_to_them_are_collected() -> None:
    gc.collect()
    gone = []
    for number in range(100_000):
        shop = Shop("x")
        assert shop.itself() is shop
        if number % 1000 == 0:
            gone.append(weakref.ref(shop))
    del shop
    gc.collect()
    assert len(gone) == 100 and not any(reference() for reference in gone)


def test_function_whose_answers_refer_to_it_is_collected() -> None:
    class Payload:
        pass

    def build() -> Any:
        @cache(copy="share")
        def give(number: int) -> Any:
            payload = Payload()
            payload.back = give  # type: ignore[attr-defined]
            return payload

        return weakref.ref(give), weakref.ref(give(1))

    function, payload = build()
    gc.collect()
    assert function() is None and payload() is None


def test_run_that_its_own_argument_holds_is_collected() -> None:
    class Order:
        task: asyncio.Task[None]

    def build() -> list[weakref.ref[Any]]:
        @cache
        async def wait(order: Order) -> None:
            await asyncio.sleep(60)

        loop = asyncio.new_event_loop()
        order = Order()
        order.task = loop.create_task(wait(order))
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
        return [weakref.ref(order), weakref.ref(wait)]

    references = build()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_class_without_room_for_answers_is_refused_when_it_is_made() -> None:
    with pytest.raises((TypeError, RuntimeError)) as refused:

        class Tight:
            __slots__ = ()

            @cache
            def method(self) -> int:
                return 1

    cause = refused.value.__cause__ or refused.value
    assert "__weakref__" in str(cause) and "Tight" in str(cause)


class Slim:
    __slots__ = ("name", "__weakref__")

    def __init__(self, name: str) -> None:
        self.name = name

    @cache(copy="share")
    def give(self, kind: type) -> Any:
        return kind()

    @cache
    def named(self, number: int) -> str:
        return f"{self.name} {number}"

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def test_instance_without_a_dict_has_answers_of_its_own_for_its_life() -> None:
    class Answer:
        pass

    one, other = Slim("one"), Slim("other")
    assert [one.named(1), other.named(1), one.named(number=1)] == ["one 1", "other 1", "one 1"]
    assert one.named.cache_info().currsize == 1
    for make in (copy.copy, copy.deepcopy, lambda slim: pickle.loads(pickle.dumps(slim))):
        copied = make(one)
        copied.name = "copied"
        assert (copied.named(1), one.named(1)) == ("copied 1", "one 1")
    assert one.named.invalidate_cache(1) and not one.named.invalidate_cache(1)
    Slim.named.cache_clear()
    assert not one.named.cache_contains(1) and not other.named.cache_contains(1)
    answer = one.give(Answer)
    assert one.give(Answer) is answer is not other.give(Answer)
    reference = weakref.ref(answer)
    del answer, one
    gc.collect()
    assert reference() is None


def test_instance_without_a_dict_at_the_address_of_another_sees_none_of_its_answers() -> None:
    addresses = set()
    for number in range(2_000):
        slim = Slim(str(number))
        assert slim.named(1) == slim.named(1) == f"{number} 1"
        addresses.add(id(slim))
        del slim
    assert len(addresses) < 2_000, "no address was used again"


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 13) and bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="3.13 without the lock keeps every class for ever once a thread has run",
)
def test_function_that_holds_answers_of_instances_without_a_dict_is_collected() -> None:
    def build() -> Any:
        class Local:
            __slots__ = ("__weakref__",)

            @cache(copy="share")
            def itself(self) -> Any:
                return self

        local = Local()
        assert local.itself() is local.itself() is local
        return weakref.ref(local), weakref.ref(Local)

    references = build()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_destructors_and_comparisons_that_call_the_cache_meet_no_lock() -> None:
    class Restless:
        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            plain(self.number % 7)
            return self.number % 5

        def __eq__(self, other: object) -> bool:
            opaque.invalidate_cache(Key(random.randrange(5)))
            plain(random.randrange(40))
            return isinstance(other, Restless) and other.number == self.number

        def __del__(self) -> None:
            plain(self.number)
            # Not always: what it stores takes out another, whose end would store again.
            if random.random() < 0.3:
                shared(random.randrange(50))

    class Key:
        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            return self.number

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Key) and other.number == self.number

    @cache(maxsize=8, ttl=0.02)
    def plain(number: int) -> list[int]:
        return [number]

    @cache(maxsize=4, copy="share")
    def shared(number: int) -> Restless:
        return Restless(number)

    @cache(maxsize=4)
    def opaque(key: Any) -> int:
        return int(key.number)

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(400):
            number = chance.randrange(30)
            assert plain(number) == [number]
            assert shared(number).number == number
            assert opaque(Restless(number)) == number
            if chance.random() < 0.02:
                shared.cache_clear()
            if chance.random() < 0.02:
                gc.collect()

    before = gc.get_threshold()
    gc.set_threshold(10)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
    finally:
        gc.set_threshold(*before)
    assert not any(thread.is_alive() for thread in threads)
    assert plain.cache_info().currsize <= 8


def test_lifetime_ends() -> None:
    runs = []

    def count(*_: Any) -> int:
        runs.append(1)
        return len(runs)

    short, none, long = cache(ttl=0.05)(count), cache(ttl=0)(count), cache(ttl=timedelta(1))(count)
    begin = time.monotonic()
    assert short() == 1
    until(lambda: short() == 2)
    assert time.monotonic() - begin > 0.02
    assert (none(), none()) == (3, 4)
    assert (long(), long()) == (5, 5)


def test_lifetime_may_depend_on_the_result() -> None:
    runs = []

    @cache(ttl=lambda result: {"a": 0.05, "b": None, "c": 0, "d": 600}[result])
    def echo(text: str) -> str:
        runs.append(text)
        return text

    for _ in range(2):
        echo("b"), echo("c"), echo("d")
    assert "".join(runs) == "bcdc"
    begin = time.monotonic()
    echo("a")
    until(lambda: echo("a") and len(runs) > 5)
    assert time.monotonic() - begin > 0.02
    echo("b"), echo("d")
    assert "".join(runs) == "bcdcaa"


def test_result_decides_whether_it_is_stored() -> None:
    some = cache(when=lambda result: result is not None)(lambda value: value)
    few = cache(unless=lambda result: result < 0)(lambda value: value)
    for value in (None, 1, None, 1):
        assert some(value) == value
    for value in (-1, 1, -1, 1):
        assert few(value) == value
    assert some.cache_info()[:2] == few.cache_info()[:2] == (1, 3)


def test_tags_invalidate_across_functions() -> None:
    one = cache(tags=["all"])(lambda number: [number])
    other = cache(tags=lambda number: ["all", f"number:{number}"])(lambda number: number)
    one(1), other(1), other(2)
    invalidate_tags("number:1")
    one(1), other(1), other(2)
    assert (one.cache_info().hits, other.cache_info().hits) == (1, 1)
    invalidate_tags("all")
    one(1), other(1), other(2)
    assert (one.cache_info().hits, other.cache_info().hits) == (1, 1)
    with pytest.raises(TypeError, match="int"):
        invalidate_tags("a", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tag must be a str, not int"):
        cache(tags=lambda: [1])(lambda: 1)()


def test_entries_are_bounded() -> None:
    few = cache(maxsize=10)(lambda number: number)
    for number in range(1000):
        assert few(number) == number
        assert few.cache_info().currsize <= 10
    assert few.cache_info() == CacheCounts(0, 1000, 10, 10, evictions=990)


def test_attributes_are_the_functions() -> None:
    assert module_level.__name__ == "module_level" and module_level.__doc__ == "Says it."
    assert str(inspect.signature(module_level)) == "(number: int) -> int"
    assert module_level.__wrapped__(3) == 3
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert copy.deepcopy(module_level) is module_level
    assert not inspect.iscoroutinefunction(module_level)
    assert inspect.iscoroutinefunction(Shop.stock)
    assert inspect.iscoroutinefunction(Shop("a").stock)
    assert Shop("a").price.__doc__ == "The price."
    assert module_level.cache_contains(9) is False
    module_level(9)
    assert module_level.cache_contains(number=9) is True
    assert asyncio.run(module_level.ainvalidate_cache(9)) is True
    assert module_level.cache_contains(9) is False
    with pytest.raises(TypeError, match="module_level"):
        module_level.invalidate_cache(1, 2, 3)


def test_none_is_a_value() -> None:
    nothing = cache(lambda: None)
    assert (nothing(), nothing(), nothing.cache_info().misses) == (None, None, 1)


@pytest.mark.parametrize(
    "settings, error, words",
    [
        ({"backend": object()}, TypeError, "backend"),
        ({"max_size": 3}, TypeError, "max_size"),
        ({"ttl": -1}, ValueError, "ttl must be from 0 .* not -1"),
        ({"ttl": float("nan")}, ValueError, "ttl"),
        ({"ttl": float("inf")}, ValueError, "ttl"),
        ({"ttl": "1"}, TypeError, "ttl .* str"),
        ({"ttl": True}, TypeError, "ttl .* bool"),
        ({"maxsize": 0}, ValueError, "maxsize .* 1"),
        ({"maxsize": 2**31 + 1}, ValueError, "maxsize"),
        ({"maxsize": None}, TypeError, "maxsize .* NoneType"),
        ({"copy": "shallow"}, ValueError, "auto, share, deep"),
        ({"ignore": "a"}, TypeError, "ignore"),
        ({"ignore": ["b"]}, ValueError, "'b'"),
        ({"tags": "a"}, TypeError, "tags"),
        ({"tags": [1]}, TypeError, "tags .* int"),
        ({"key": 1}, TypeError, "key"),
        ({"when": 1}, TypeError, "when"),
        ({"flight_wait": -1}, ValueError, "flight_wait"),
    ],
)
def test_settings_out_of_range_are_refused_while_decorating(
    settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        cache(**settings)(lambda a: a)


def test_what_is_no_plain_function_is_refused_while_decorating() -> None:
    def generator() -> Any:
        yield 1

    async def stream() -> Any:
        yield 1

    for refused in (generator, stream, Shop, 3, property(lambda self: 1)):
        with pytest.raises(TypeError, match="generator|decorates functions"):
            cache(refused)


def test_body_may_drop_its_own_function() -> None:
    held = {}

    def suicidal(number: int) -> int:
        held.clear()
        gc.collect()
        return number

    held["f"] = cache(suicidal)
    assert held["f"](1) == 1


def test_exit_is_silent_with_runs_in_progress() -> None:
    program = """
import threading, time, asyncio
from tidemark_cache import cache
held = []
class Noisy:
    # Held here: the names of a module may be gone before the last of its objects.
    def __del__(self, held=held): held[0](1)
@cache(copy="share")
def give(number): return Noisy()
held.append(give)
@cache
def slow(): time.sleep(600)
give(1); give(2)
for _ in range(3): threading.Thread(target=slow, daemon=True).start()
time.sleep(0.05)
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


SUB_INTERPRETER = """
try:
    import _interpreters as interpreters
    other = interpreters.create("legacy")
except ImportError:
    # Until 3.12.
    import _xxsubinterpreters as interpreters
    other = interpreters.create(isolated=False)
from tidemark_cache import cache
@cache
def own(number): return [number]
own(1)
interpreters.run_string(other, '''
try:
    import tidemark_cache
except ImportError as error:
    print(error, flush=True)
else:
    print("imported", flush=True)
''')
interpreters.destroy(other)
print(own(1), own.cache_info().hits)
"""


def test_sub_interpreter_is_refused_and_the_main_one_goes_on() -> None:
    program = [sys.executable, "-W", "ignore", "-c", SUB_INTERPRETER]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and done.returncode == 0
    refused, answered = done.stdout.splitlines()
    assert refused.startswith("tidemark_cache works in the main interpreter alone")
    assert answered == "[1] 1"


def test_misses_leave_no_object_behind() -> None:
    small = cache(maxsize=1)(lambda number: None)

    def missed(count: int) -> int:
        before = sys.getallocatedblocks()
        for number in range(1000, 1000 + count):
            small(number)
        return sys.getallocatedblocks() - before

    missed(10)
    assert missed(10_000) < 100


def test_hits_and_misses_leave_no_reference_behind() -> None:
    class Thing:
        pass

    thing = Thing()
    give = cache(copy="share")(lambda key, *more, **named: thing)
    tree = cache(lambda: {"a": [1, (2, [3])], "b": {4}})

    def round_trip(number: int) -> None:
        for key in (number % 3, "a", 1.5, (1, 2), [1], None):
            give(key), give(key, 1, x=2), give.cache_contains(key)
        tree()
        with pytest.raises(ZeroDivisionError):
            cache(lambda: 1 // 0)()

    for number in range(10):
        round_trip(number)
    give.cache_clear()
    gc.collect()
    before = sys.getrefcount(thing), sys.getrefcount(None)
    for number in range(500):
        round_trip(number)
    give.cache_clear()
    gc.collect()
    assert sys.getrefcount(thing) == before[0]
    assert abs(sys.getrefcount(None) - before[1]) < 100


FORK_OF_C = """
import ctypes, os, signal, threading
from tidemark_cache import cache
began, go_on = threading.Event(), threading.Event()
parent = os.getpid()
@cache
def slow(number):
    if os.getpid() == parent:
        began.set()
        go_on.wait(20)
    return [number]
leader = threading.Thread(target=slow, args=(1,))
leader.start()
began.wait(20)
# As a server does that is written in C: no hook of Python runs, and this thread has its lock.
child = ctypes.PyDLL(None).fork()
if child == 0:
    signal.alarm(20)
    os._exit(0 if [slow(1), slow(2), slow(1)] == [[1], [2], [1]] else 1)
print(os.waitpid(child, 0)[1])
go_on.set()
leader.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_of_a_fork_without_hooks_waits_for_no_thread_of_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", FORK_OF_C], capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"0\n", b"")
