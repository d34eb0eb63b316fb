"""Orders, facts and words as another process reads them; what it does not know is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bot.clients.store_incidents import Fact
from bot.clients.store_watches import Owed, Word
from bot.core.events import InvocationId, Member, ServiceName, UserId
from bot.core.incident_events import Acknowledged, Recovered, SignSeen, Worsened
from bot.core.incident_state import How, IncidentId, Severity, Sign, SignKind
from bot.core.monitor_events import (
    IncidentClosed,
    IncidentFound,
    Muted,
    OpenIncident,
    TellIncident,
    TellStopped,
    WatchStart,
)
from bot.watch_orders import pack_fact, pack_order, pack_word, read_fact, read_order, read_word
from tests.support.incidents import make_incident_plan

NOW = datetime(2026, 5, 29, 3, 12, tzinfo=UTC)
SIGN = Sign(SignKind.GPU, NOW, "Xid 79", Member("llm-two/kimi.service"), ("NVRM: Xid",))
INCIDENT, SERVICE = IncidentId("a" * 32), ServiceName("kimi-k2.5")


@pytest.mark.parametrize(
    "order",
    [
        OpenIncident(make_incident_plan(last_healthy=None)),
        TellIncident(INCIDENT, SignSeen(SIGN)),
        TellIncident(INCIDENT, Worsened(Severity.DOWN, SIGN)),
        TellIncident(INCIDENT, Recovered(NOW)),
        WatchStart(SERVICE, Member("llm-two/kimi.service"), InvocationId("b" * 32), How.SYSTEMD, 4, INCIDENT),
        TellStopped(SERVICE, NOW, NOW - timedelta(minutes=1), "someone stopped it"),
    ],
)
def test_an_order_comes_out_as_it_went_in(
    order: OpenIncident | TellIncident | WatchStart | TellStopped,
) -> None:
    assert read_order(pack_order(order)) == order


def test_each_order_has_a_name_of_its_own() -> None:
    order = TellIncident(INCIDENT, Recovered(NOW))
    assert pack_order(order).id != pack_order(order).id


def test_facts_and_words_keep_the_name_they_are_given() -> None:
    fact = pack_fact(Acknowledged(UserId("U1")), name="ack:1")
    assert (fact.id, read_fact(fact)) == ("ack:1", Acknowledged(UserId("U1")))
    said = Muted(UserId("U1"), NOW, "work on the rack")
    word = pack_word(said, service=SERVICE, name="mute:1")
    assert (word.id, word.service, read_word(word)) == ("mute:1", SERVICE, said)
    assert pack_word(IncidentClosed(INCIDENT), service=None, name="c").service == ""
    found = IncidentFound(INCIDENT, Severity.HOST, times=2)
    assert read_word(pack_word(found, service=None, name="f")) == found


def test_what_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody knows an order Dance"):
        read_order(Owed(id="1", kind="Dance", body="{}"))
    with pytest.raises(ValueError, match="nobody knows a fact Dance"):
        read_fact(Fact(id="1", kind="Dance", body="{}"))
    with pytest.raises(ValueError, match="nobody knows a word Dance"):
        read_word(Word(id="1", service="", kind="Dance", body="{}"))
