"""Records: written, read back, and refused in words when they are of another shape."""

from __future__ import annotations

import pytest

from bot.clients.records import (
    Address,
    AuditEntry,
    Intent,
    Mail,
    Operation,
    Outgoing,
    Record,
    dump,
    load,
    past_of,
    set_aside,
)
from bot.core.events import Verb
from bot.errors import RecordUnreadable
from tests.support.outgoing import BEGAN, CHANNEL, PERSON, holder, operation, reply, root, upload


@pytest.mark.parametrize(
    "record",
    [
        operation(),
        holder(),
        reply(1, tags={"state": "open"}),
        root(asker=PERSON),
        upload(2),
        Address(channel=CHANNEL, ts="1.2"),
        Mail(id="m", kind="superseded", by=PERSON, verb=Verb.STOP, at=BEGAN),
        Intent(token="t", owner="o", at=BEGAN, user=PERSON, words="restart kimi", minutes=5),
        AuditEntry(at=BEGAN, user=PERSON, verb="restart", outcome="started"),
    ],
    ids=repr,
)
def test_what_is_written_is_read(record: Record) -> None:
    assert load(type(record), dump(record), key="k") == record


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"\xff\xfe", "kimi:x: the whole:"),
        (b"{", "kimi:x: the whole:"),
        (b"{}", "kimi:x: operation:"),
        (dump(operation()).replace(b'"schema_version":1', b'"schema_version":2'), "kimi:x: schema_version:"),
    ],
)
def test_another_shape_is_told(raw: bytes, told: str) -> None:
    with pytest.raises(RecordUnreadable) as caught:
        load(Operation, raw, key="kimi:x")
    assert str(caught.value).startswith(told)


def test_a_key_that_a_newer_process_added_is_no_fault() -> None:
    raw = dump(reply(1)).replace(b"{", b'{"colour": "red", ', 1)
    assert load(Outgoing, raw, key="k") == reply(1)


def test_what_stays_of_an_operation_is_what_it_was() -> None:
    closed = operation(closed=BEGAN, verdict="failed", account="{}")
    past = past_of(closed, Address(channel=CHANNEL, ts="1.2", permalink="https://s/p"))
    assert (past.operation, past.by, past.verdict, past.account) == ("op1", closed.by, "failed", "{}")
    assert (past.closed, past.link) == (BEGAN, "https://s/p")
    assert past_of(closed, None).link is None


def test_set_aside_keeps_every_byte() -> None:
    aside = set_aside("kimi:x", b"a\xff", RecordUnreadable("why"))
    assert (aside.key, aside.raw, aside.error) == ("kimi:x", "a\\xff", "why")


def test_what_is_edited_is_the_root_until_a_reply_took_over() -> None:
    address = Address(channel=CHANNEL, ts="1.2")
    assert address.edited == "1.2"
    assert address.model_copy(update={"present": "3.4"}).edited == "3.4"
