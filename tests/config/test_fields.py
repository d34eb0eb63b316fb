"""Durations and the other kinds of values."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from config.fields import (
    ChannelText,
    HttpUrl,
    ListenText,
    PersonText,
    PingUrl,
    RedisUrl,
    ServiceText,
    UnitText,
    check_ping_url,
    parse_address,
    parse_age,
    parse_duration,
    write_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("15m", 900),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        (" 90s ", 90),
        ("168h", 604800),
        ("7d", 604800),
        ("1d12h", 129600),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "0s", "30", "s", "-3m", "5 minutes", "30s1h", "169h", "8d", "٣s"])
def test_what_is_no_duration_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        parse_duration(text)


@pytest.mark.parametrize(("text", "seconds"), [("0s", 0), ("30m", 1800), ("30d", 30 * 86400)])
def test_an_age_may_be_any(text: str, seconds: int) -> None:
    assert parse_age(text) == timedelta(seconds=seconds)
    assert parse_age(f"{'9' * 40}d") == timedelta.max
    with pytest.raises(ValueError, match="allowed: a duration"):
        parse_age("soon")


def test_an_address_to_listen_on_is_taken_apart() -> None:
    assert parse_address("127.0.0.1:8970") == ("127.0.0.1", 8970)
    assert parse_address("[::1]:0") == ("::1", 0)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://p.example/hush-hush",
        "https:///hush-hush",
        "http://p:hush-hush/",
        "http://p.example/hush-hush\n",
        "http://p.example/ hush-hush",
    ],
)
def test_a_refused_ping_url_is_not_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="allowed: http") as caught:
        check_ping_url(url)
    assert "hush" not in str(caught.value)


@given(st.integers(min_value=1, max_value=7 * 24 * 3600))
def test_a_written_duration_reads_back(seconds: int) -> None:
    duration = timedelta(seconds=seconds)
    assert parse_duration(write_duration(duration)) == duration


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (ChannelText, "C0123456789", "#general"),
        (PersonText, "S0456", "@alice"),
        (UnitText, "sglang@kimi.service", "sglang"),
        (UnitText, "a.service", "a b.service"),
        (ServiceText, "kimi-k2.5", "kimi k2"),
        (ServiceText, "x", "-x"),
        (HttpUrl, "http://127.0.0.1:30000", "127.0.0.1:30000"),
        (HttpUrl, "https://llm.example", "https://user:pw@llm.example"),
        (ListenText, "", "8970"),
        (ListenText, "[::1]:8970", "127.0.0.1:65536"),
        (PingUrl, "https://ping.example/a-secret?b=c", "ping.example/a-secret"),
        (PingUrl, "http://ping.example", "http://:1:2/"),
        (HttpUrl, "http://[::1]:80", "http://[::1"),
        (HttpUrl, "http://a:1", "http://a:99999"),
        (RedisUrl, "unix:///run/redis.sock", "http://localhost"),
        (RedisUrl, "cluster://a:1,b:2", "localhost:6379"),
        (RedisUrl, "redis://:word@a:1/0", "redis://a:port"),
        (RedisUrl, "rediss://a", "rediss://a:0"),
    ],
)
def test_each_kind_takes_the_good_and_names_what_is_allowed(kind: Any, good: str, bad: str) -> None:
    adapter: TypeAdapter[str] = TypeAdapter(kind)
    assert adapter.validate_python(good) == good
    with pytest.raises(ValidationError, match="allowed: "):
        adapter.validate_python(bad)


def test_a_trailing_slash_of_an_address_is_dropped() -> None:
    assert TypeAdapter(HttpUrl).validate_python("http://a:1/") == "http://a:1"
