"""Messages of an incident: names that make each once, what may be shown in the channel, the file."""

from __future__ import annotations

from datetime import timedelta

from bot.clients.slack_history import TELLS
from bot.core.events import ChannelId
from bot.core.incident_actions import AgainTold, EndTold, PostIncidentReply, SignTold, UploadTimeline
from bot.core.incident_export import People
from bot.core.incident_state import Ending, Severity
from bot.core.monitor_events import TellStopped
from bot.incident_messages import (
    incident_reply,
    incident_root,
    read_ending,
    stopped_message,
    timeline_letter,
)
from tests.support.incidents import BEGAN, DIED, SERVICE, Case

CHANNEL = ChannelId("C0LLMOPS")


def test_the_root_and_its_edits_have_one_thread_and_say_what_they_are() -> None:
    view = Case().view()
    root, edit = (incident_root(view, channel=CHANNEL, edit=edit) for edit in (False, True))
    assert (root.id, root.kind) == (f"{view.incident}:root", "root")
    assert (edit.id, edit.kind) == (f"{view.incident}:edit", "edit")
    assert root.thread == edit.thread == view.incident
    assert root.tags["state"] == "open"
    assert "verb" not in root.tags  # or it would be taken for a startup


def test_a_reply_is_named_by_its_number_and_shown_in_the_channel_where_that_is_ordered() -> None:
    case = Case()
    order = PostIncidentReply(7, SignTold(DIED), broadcast=True)
    told = incident_reply(order, case.view(), channel=CHANNEL)
    assert told.id == f"{case.plan.incident}:{order.sequence}"
    assert (told.kind, told.broadcast) == ("reply", order.broadcast)


def test_how_it_ended_is_read_from_what_stands_beside_its_end() -> None:
    case = Case()
    for ending in Ending:
        end = EndTold(ending, Severity.DOWN, timedelta(), timedelta())
        told = incident_reply(PostIncidentReply(8, end), case.view(), channel=CHANNEL)
        assert read_ending(told.tags[TELLS]) is ending
    again = PostIncidentReply(9, AgainTold(DIED, 2, None))
    assert read_ending(incident_reply(again, case.view(), channel=CHANNEL).tags[TELLS]) is None


def test_the_timeline_is_a_file_of_the_thread() -> None:
    case = Case()
    letter, content = timeline_letter(
        UploadTimeline(9),
        case.plan,
        case.incident.state,
        case.now + timedelta(minutes=1),
        channel=CHANNEL,
        people=People(),
    )
    assert (letter.id, letter.kind) == (f"{case.plan.incident}:9", "upload")
    assert letter.file is not None
    assert letter.file.name.endswith(".md")
    assert content.decode().startswith("# kimi")


def test_a_stop_is_one_message() -> None:
    told = TellStopped(SERVICE, BEGAN, None, "someone stopped it")
    message = stopped_message(told, thread="stopped-1", channel=CHANNEL)
    assert (message.id, message.thread, message.kind) == ("stopped-1:root", "stopped-1", "root")
    assert "stopped" in message.text
