"""The verbs about incidents and mutes, typed and pressed: who may, which one is meant, what comes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.blocks import Message, actions, button, make_message, pack, section
from bot.core.events import ServiceName
from bot.core.incident_render import render_incident_root
from bot.core.incident_state import Severity
from bot.core.monitor_state import Mute
from bot.core.request import Outage
from tests.support.configurations import ALICE, BOB, MALLORY, OPS
from tests.support.handler_room import HOST, INCIDENT
from tests.support.incidents import Case, make_incident_plan

if TYPE_CHECKING:
    from tests.support.handler_room import Room

KIMI = ServiceName("kimi-k2.5")
SHORT = INCIDENT[:8]


async def test_the_list_is_of_what_may_be_named_here(room: Room) -> None:
    assert "No incident is open" in (await room.slash(MALLORY, "incidents")).text
    ((kind, services, service),) = room.incidents.asked
    assert (kind, service) == ("rows", KIMI)  # the one that is meant where none is named
    assert KIMI in services


async def test_the_status_tells_of_an_open_one(room: Room) -> None:
    room.incidents.outage = Outage(SHORT, "process died by SIGSEGV", timedelta(minutes=4))
    assert "process died by SIGSEGV" in str(await room.slash(MALLORY, f"status {KIMI}"))


async def test_one_of_them_as_a_file_goes_where_it_was_asked_for(room: Room) -> None:
    assert "as a file" in (await room.slash(MALLORY, f"incidents export {SHORT}")).text
    assert room.incidents.asked == [("export", INCIDENT, OPS, None)]
    assert "no incident" in (await room.slash(MALLORY, "incidents export 99999999")).text
    assert len(room.incidents.asked) == 1


async def test_anybody_may_be_on_it_and_operators_close_it(room: Room) -> None:
    assert "You are on it" in (await room.slash(MALLORY, f"ack {SHORT}")).text
    assert room.incidents.asked == [("ack", KIMI, INCIDENT, MALLORY)]
    assert "Closed" not in (await room.slash(MALLORY, f"resolve {SHORT}")).text
    assert "Closed" in (await room.slash(ALICE, f"resolve {SHORT}")).text
    assert room.incidents.asked[1:] == [("resolve", KIMI, INCIDENT, ALICE)]


async def test_an_incident_is_judged_by_the_service_it_is_about(room: Room) -> None:
    room.incidents.service = ServiceName("elsewhere-only")
    assert "no incident" in (await room.slash(ALICE, f"resolve {SHORT}")).text
    room.incidents.service = None  # a host's: for those who may everything
    assert "Closed" not in (await room.slash(MALLORY, f"resolve {SHORT}")).text
    assert room.incidents.asked == []


async def test_a_mute_lasts_and_has_a_reason_and_ends(room: Room) -> None:
    assert "Muted" in (await room.slash(ALICE, f"mute {KIMI} 2h work on the rack")).text
    assert "No longer" in (await room.slash(ALICE, f"unmute {KIMI}")).text
    assert room.incidents.asked == [
        ("mute", KIMI, timedelta(hours=2), ALICE, "work on the rack"),
        ("unmute", KIMI, ALICE),
    ]
    await room.slash(MALLORY, f"mute {KIMI} 2h")
    assert len(room.incidents.asked) == 2


async def test_a_host_is_muted_by_its_name_by_who_may_mute_all_that_is_on_it(room: Room) -> None:
    assert "host is muted" in (await room.slash(ALICE, "mute llm-two 2h disk swap")).text
    await room.settled()  # noted after it is told
    assert "no longer muted" in (await room.slash(ALICE, "unmute llm-two")).text
    await room.settled()
    assert room.incidents.asked == [
        ("mute host", HOST, timedelta(hours=2), ALICE, "disk swap"),
        ("unmute host", HOST, ALICE),
    ]
    assert "host is muted" not in (await room.slash(MALLORY, "mute llm-two 2h")).text
    assert len(room.incidents.asked) == 2
    await room.settled()
    entries = await room.store.audits(10)
    assert [(entry.verb, entry.host, entry.service, entry.outcome) for entry in entries] == [
        ("mute", HOST, None, "refused"),
        ("unmute", HOST, None, "done"),
        ("mute", HOST, None, "done"),
    ]


async def test_in_the_thread_of_a_host_a_mute_needs_no_name(room: Room) -> None:
    plan = make_incident_plan(service=None, subject=HOST, severity=Severity.HOST, members=())
    ts = await room.show(render_incident_root(Case(plan).view()))
    room.incidents.thread, room.incidents.service = ts, None
    await room.slack.mention(ALICE, OPS, "mute 2h disk swap", thread_ts=ts)
    await room.wait_for(lambda: room.incidents.asked)
    assert (await room.slack.press(ALICE, OPS, ts, "kimi:mute")).acknowledged
    await room.wait_for(lambda: len(room.incidents.asked) > 1)
    await room.slack.mention(ALICE, OPS, "unmute", thread_ts=ts)
    await room.wait_for(lambda: len(room.incidents.asked) > 2)
    assert room.incidents.asked == [
        ("mute host", HOST, timedelta(hours=2), ALICE, "disk swap"),
        ("mute host", HOST, timedelta(hours=1), ALICE, ""),
        ("unmute host", HOST, ALICE),
    ]


async def test_the_status_tells_with_what_it_is_muted(room: Room) -> None:
    room.incidents.muted = Mute(datetime.now(UTC) + timedelta(hours=1), None, "", HOST)
    assert "with its host `llm-two`" in str(await room.slash(MALLORY, f"status {KIMI}"))


async def test_in_its_thread_it_needs_no_name(room: Room) -> None:
    ts = await room.show(render_incident_root(Case().view()))
    room.incidents.thread = ts
    await room.slack.mention(BOB, OPS, "ack", thread_ts=ts)
    asked = await room.wait_for(lambda: room.incidents.asked)
    assert asked == [("ack", KIMI, INCIDENT, BOB)]


async def test_the_buttons_of_the_root(room: Room) -> None:
    value = pack(o=INCIDENT, s=KIMI, m=60)
    buttons = [button(name, name, value) for name in ("ack", "mute", "resolve", "export")]
    message: Message = make_message("down", section("down"), actions(*buttons))
    ts = await room.show(message)
    for name in ("ack", "mute", "resolve", "export"):
        assert (await room.slack.press(ALICE, OPS, ts, f"kimi:{name}")).acknowledged
        await room.settled()
    assert room.incidents.asked == [
        ("ack", KIMI, INCIDENT, ALICE),
        ("mute", KIMI, timedelta(hours=1), ALICE, ""),
        ("resolve", KIMI, INCIDENT, ALICE),
        ("export", INCIDENT, OPS, ts),
    ]


async def test_a_hosts_incident_has_buttons_too(room: Room) -> None:
    room.incidents.service = None
    ts = await room.show(
        make_message("gone", section("gone"), actions(button("Acknowledge", "ack", pack(o=INCIDENT))))
    )
    await room.slack.press(ALICE, OPS, ts, "kimi:ack")
    asked = await room.wait_for(lambda: room.incidents.asked)
    assert asked == [("ack", None, INCIDENT, ALICE)]


async def test_who_is_an_operator_by_a_group_closes_a_hosts_incident(room: Room) -> None:
    room.incidents.service = None
    assert "Closed" in (await room.slash(BOB, f"resolve {SHORT}")).text
    assert room.incidents.asked == [("resolve", None, INCIDENT, BOB)]


async def test_the_incident_of_a_service_that_is_configured_no_longer_can_be_closed(room: Room) -> None:
    room.incidents.service, room.incidents.everywhere = ServiceName("gone-since"), True
    value = pack(o=INCIDENT, s="gone-since", m=60)
    ts = await room.show(
        make_message("down", section("down"), actions(*(button(n, n, value) for n in ("mute", "resolve"))))
    )
    for user, name in ((ALICE, "mute"), (MALLORY, "resolve"), (ALICE, "resolve")):
        assert (await room.slack.press(user, OPS, ts, f"kimi:{name}")).acknowledged
        await room.settled()
    assert room.incidents.asked == [("resolve", None, INCIDENT, ALICE)]
