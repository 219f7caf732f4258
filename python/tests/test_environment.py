"""The tier that environment variables name."""

import pathlib

import pytest

from tidemark_cache import CacheConfig, _environment, _tiers, cache

SECRET = "s3cret"


def of(**variables: str) -> object:
    return _environment.backend_of(variables)


def test_environment_without_names_keeps_answers_in_memory() -> None:
    assert of() is None
    assert of(CACHEKIT_REDIS_URL="", REDIS_URL="") is None


def test_environment_names_one_tier_with_its_settings(tmp_path: pathlib.Path) -> None:
    url = f"redis://user:{SECRET}@cache:6379/2"
    assert of(REDIS_URL=url) == _tiers.RedisBackend(url)
    # The name that is this package's own goes before the common one.
    assert of(CACHEKIT_REDIS_URL=url, REDIS_URL="redis://other") == _tiers.RedisBackend(url)
    assert of(
        CACHEKIT_REDIS_URL=url,
        CACHEKIT_CONNECTION_POOL_SIZE="7",
        CACHEKIT_SOCKET_TIMEOUT="0.5",
        CACHEKIT_SOCKET_CONNECT_TIMEOUT="2",
    ) == _tiers.RedisBackend(url, connections=7, timeout=0.5, connect_timeout=2.0)
    folder = str(tmp_path)
    assert of(
        CACHEKIT_FILE_CACHE_DIR=folder, CACHEKIT_FILE_CACHE_MAX_SIZE_MB="8", REDIS_URL=url
    ) == _tiers.FileBackend(folder=folder, megabytes=8)
    assert of(
        CACHEKIT_MEMCACHED_SERVERS='["cache:11211"]',
        CACHEKIT_MEMCACHED_TIMEOUT="1.5",
        CACHEKIT_MEMCACHED_KEY_PREFIX="shop",
    ) == _tiers.MemcachedBackend("memcached://cache:11211", timeout=1.5, prefix="shop")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"CACHEKIT_REDIS_URL": f"redis://:{SECRET}@a", "CACHEKIT_FILE_CACHE_DIR": "/x"},
            "CACHEKIT_REDIS_URL and CACHEKIT_FILE_CACHE_DIR are set",
        ),
        ({"CACHEKIT_API_KEY": SECRET}, "CACHEKIT_API_KEY is set, and this package has no managed"),
        ({"CACHEKIT_API_URL": SECRET}, "CACHEKIT_API_URL is set, and this package has no managed"),
        ({"REDIS_URL": f"http://:{SECRET}@a"}, "REDIS_URL: url must begin with redis://"),
        ({"CACHEKIT_REDIS_URL": f"redis://:{SECRET}@a:99999999"}, "CACHEKIT_REDIS_URL: the address"),
        ({"REDIS_URL": "redis://" + SECRET * 1_000}, "REDIS_URL may have 4096 characters"),
        (
            {"REDIS_URL": "redis://a", "CACHEKIT_SOCKET_TIMEOUT": SECRET},
            "CACHEKIT_SOCKET_TIMEOUT must be a number from 0.001 to 86400.0",
        ),
        (
            {"REDIS_URL": "redis://a", "CACHEKIT_SOCKET_TIMEOUT": "nan"},
            "CACHEKIT_SOCKET_TIMEOUT must be a number",
        ),
        (
            {"REDIS_URL": "redis://a", "CACHEKIT_CONNECTION_POOL_SIZE": "1.5"},
            "CACHEKIT_CONNECTION_POOL_SIZE must be a whole number from 1 to 10000",
        ),
        (
            {"CACHEKIT_FILE_CACHE_DIR": "/x", "CACHEKIT_FILE_CACHE_MAX_SIZE_MB": "0"},
            "CACHEKIT_FILE_CACHE_MAX_SIZE_MB must be a whole number from 1",
        ),
        (
            {"CACHEKIT_MEMCACHED_SERVERS": SECRET},
            "CACHEKIT_MEMCACHED_SERVERS: it must be a JSON list",
        ),
        ({"CACHEKIT_MEMCACHED_SERVERS": "[" * 4_000}, "CACHEKIT_MEMCACHED_SERVERS: it must be"),
        (
            {"CACHEKIT_MEMCACHED_SERVERS": '["a", "b"]'},
            "CACHEKIT_MEMCACHED_SERVERS: it must name one server, not 2",
        ),
    ],
)
def test_environment_names_the_variable_that_is_wrong_and_shows_no_value(
    variables: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError) as raised:
        of(**variables)
    assert str(raised.value).startswith(said)
    assert SECRET not in repr(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_function_gets_its_tier_of_the_environment(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*_environment._SELECTORS, "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    config = CacheConfig(backend="environment", namespace="test", version=1, ttl=600)
    assert "environment" in repr(config) and hash(config) == hash(config)

    def made() -> object:
        runs: list[int] = []

        @cache(config=config)
        def function(number: int) -> list[int]:
            runs.append(number)
            return [number, len(runs)]

        return function

    assert list(made().get_health_status()["tiers"]) == ["memory"]
    monkeypatch.setenv("CACHEKIT_FILE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CACHEKIT_FILE_CACHE_MAX_SIZE_MB", "8")
    first, second = made(), made()
    assert list(first.get_health_status()["tiers"]) == ["memory", "file"]
    assert first(1) == [1, 1] and second(1) == [1, 1]
    assert second.cache_info().l2_hits == 1


def test_function_without_a_backend_stays_in_memory_whatever_the_environment_says(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CACHEKIT_REDIS_URL", raising=False)
    for name, value in (("CACHEKIT_FILE_CACHE_DIR", str(tmp_path)), ("REDIS_URL", "redis://a")):
        monkeypatch.setenv(name, value)
        for decorate in (cache, cache(ttl=60), cache.production, cache(config=CacheConfig())):

            @decorate
            def function(number: int) -> int:
                return number

            assert function(1) == 1
            assert list(function.get_health_status()["tiers"]) == ["memory"]
        monkeypatch.delenv(name)
    assert list(tmp_path.iterdir()) == []


def test_function_that_cannot_have_a_tier_is_refused_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (*_environment._SELECTORS, "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(TypeError, match="may be the name of another function"):

        @cache(backend="environment")
        def local(number: int) -> int:
            return number

    # Before 3.12 the interpreter raises another error because of this one.
    with pytest.raises((RuntimeError, TypeError)) as raised:

        class Shop:
            @cache(backend="environment", namespace="a", version=1)
            def price(self, item: str) -> str:
                return item

    assert "is a method" in str(raised.value.__cause__ or raised.value)
