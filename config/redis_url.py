"""Where Redis is: one server, what sentinels watch, or a Cluster, as one address."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

REDIS_SCHEMES = ("redis", "rediss", "unix", "sentinel", "sentinels", "cluster", "clusters")
SENTINEL_PORT, REDIS_PORT = 26379, 6379
_ONE_SERVER = frozenset({"redis", "rediss", "unix"})
_SENTINEL_FORM = "sentinel://host:26379,host:26379/MASTER, or …/MASTER/DB"
_CLUSTER_FORM = "cluster://host:6379,host:6379"
_NO_PORT = "has no usable port; allowed: 1 to 65535"
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:\s]+)(?::(?P<port>\d{1,5}))?")
_MASTER = re.compile(r"[A-Za-z0-9._-]+")  # as a sentinel accepts it
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_SENTINEL_OPTIONS = ("sentinel_user", "sentinel_password")


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """`hosts` and what follows are empty for one server: its URL is the client's own to read."""

    url: str = field(repr=False)
    kind: str  # "one", "sentinel" or "cluster"
    place: str  # the address without what may be secret
    tls: bool = False
    hosts: tuple[tuple[str, int], ...] = ()
    master: str = ""  # the name the sentinels know it by
    database: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: dict[str, str] = field(default_factory=dict, repr=False)


def parse_redis_url(url: str) -> RedisAddress:
    """ValueError says what is allowed, and never quotes the address: it may hold a password."""
    scheme, _, rest = url.partition("://")
    if scheme not in REDIS_SCHEMES or not url.startswith(f"{scheme}://"):
        raise ValueError("has an unknown scheme; allowed: " + ", ".join(f"{s}://" for s in REDIS_SCHEMES))
    if scheme in _ONE_SERVER:
        return RedisAddress(url, "one", _one_place(url))
    kind, tls = scheme.removesuffix("s"), scheme.endswith("s")
    before, _, query = rest.partition("?")
    authority, _, path = before.partition("/")
    credentials, _, listed = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    hosts = _hosts(listed, port=SENTINEL_PORT if kind == "sentinel" else REDIS_PORT, kind=kind)
    master, database = _master(path) if kind == "sentinel" else _no_master(path)
    return RedisAddress(
        url,
        kind,
        f"{scheme}://{listed}" + (f"/{path}" if path else ""),
        tls=tls,
        hosts=hosts,
        master=master,
        database=database,
        user=unquote(user) or None,
        password=unquote(password) or None,
        options=_options(query, kind=kind, tls=tls),
    )


def _one_place(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = None if parts.scheme == "unix" else parts.port
    except ValueError:
        raise ValueError(_NO_PORT) from None
    if port == 0:
        raise ValueError(_NO_PORT)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _hosts(listed: str, *, port: int, kind: str) -> tuple[tuple[str, int], ...]:
    form = _SENTINEL_FORM if kind == "sentinel" else _CLUSTER_FORM
    found: list[tuple[str, int]] = []
    for text in listed.split(","):
        match = _HOST.fullmatch(text)
        number = int(match["port"] or port) if match else 0
        if match is None or not 1 <= number <= 65535:  # noqa: PLR2004 the highest port there is
            raise ValueError(f"has no usable list of hosts; allowed: {form}, each port 1 to 65535")
        found.append((match["host"].strip("[]"), number))
    return tuple(found)


def _master(path: str) -> tuple[str, int]:
    name, _, database = path.rstrip("/").partition("/")
    if not _MASTER.fullmatch(name):
        raise ValueError(f"does not name the master; allowed: {_SENTINEL_FORM}")
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"has no usable number of a database; allowed: {_SENTINEL_FORM}")
    return name, int(database or 0)


def _no_master(path: str) -> tuple[str, int]:
    if path not in {"", "0"}:
        raise ValueError(f"names a database, and a Cluster has none but 0; allowed: {_CLUSTER_FORM}")
    return "", 0


def _options(query: str, *, kind: str, tls: bool) -> dict[str, str]:
    known = (_TLS_OPTIONS if tls else ()) + (_SENTINEL_OPTIONS if kind == "sentinel" else ())
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        options = {"": ""}
    if not set(options) <= set(known):
        allowed = ", ".join(known) or "none without TLS"
        raise ValueError(f"has an option that means nothing here; allowed: {allowed}")
    return options
