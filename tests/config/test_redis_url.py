"""Addresses of Redis: what each form means, and refusals that never quote a secret."""

from __future__ import annotations

import pytest

from config.redis_url import parse_redis_url


def test_sentinels_are_listed_with_the_masters_name() -> None:
    address = parse_redis_url("sentinel://kimi:p%40ss@a.example,b:26380,[::1]:7/main/3")
    assert address.hosts == (("a.example", 26379), ("b", 26380), ("::1", 7))
    assert (address.kind, address.master, address.database, address.tls) == ("sentinel", "main", 3, False)
    assert (address.user, address.password) == ("kimi", "p@ss")
    assert address.place == "sentinel://a.example,b:26380,[::1]:7/main/3"


def test_a_cluster_is_some_of_its_nodes() -> None:
    address = parse_redis_url("clusters://:word@a:1,b/0?ssl_ca_certs=/etc/ca.pem&ssl_check_hostname=no")
    assert address.hosts == (("a", 1), ("b", 6379))
    assert (address.kind, address.tls, address.user, address.password) == ("cluster", True, None, "word")
    assert address.options == {"ssl_ca_certs": "/etc/ca.pem", "ssl_check_hostname": "no"}


def test_sentinels_may_have_a_password_of_their_own() -> None:
    address = parse_redis_url("sentinels://a/main?sentinel_user=u&sentinel_password=w")
    assert address.options == {"sentinel_user": "u", "sentinel_password": "w"}
    assert address.tls


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://user:secret@db.example:6379/0", "redis://db.example:6379/0"),
        ("unix:///run/redis.sock?db=1&password=secret", "unix:///run/redis.sock"),
        ("rediss://:secret@db.example", "rediss://db.example"),
        ("sentinel://:secret@a,b/main?sentinel_password=secret", "sentinel://a,b/main"),
        ("cluster://u:secret@a:1,b:2", "cluster://a:1,b:2"),
    ],
)
def test_the_place_tells_no_secret(url: str, place: str) -> None:
    address = parse_redis_url(url)
    assert address.place == place
    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("secret", "unknown scheme"),
        ("http://:secret@a", "unknown scheme"),
        ("redis://:secret@a:0", "no usable port"),
        ("redis://:secret@a:word", "no usable port"),
        ("sentinel://:secret@a:26379", "does not name the master"),
        ("sentinel://:secret@a:26379/", "does not name the master"),
        ("sentinel://:secret@a/main/first", "number of a database"),
        ("sentinel://:secret@/main", "list of hosts"),
        ("sentinel://:secret@a,/main", "list of hosts"),
        ("cluster://:secret@a:70000", "list of hosts"),
        ("cluster://:secret@a:1:2", "list of hosts"),
        ("cluster://:secret@a/1", "names a database"),
        ("cluster://:secret@a?ssl_ca_certs=x", "none without TLS"),
        ("sentinel://a/main?password=secret", "sentinel_user, sentinel_password"),
        ("clusters://a?secret", "ssl_ca_certs"),
    ],
)
def test_a_refusal_says_what_is_allowed_and_no_secret(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        parse_redis_url(url)
    assert "allowed: " in str(caught.value)
    assert "secret" not in str(caught.value)
