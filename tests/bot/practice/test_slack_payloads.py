"""The payloads of commands, mentions, presses and modals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.practice import slack_payloads as payloads
from bot.practice.slack_state import Channel, Group, PostedMessage, User, Workspace


def workspace() -> Workspace:
    made = Workspace()
    made.users["U1"] = User("U1", "alice")
    made.channels["C1"] = Channel("C1", "llm-ops")
    made.channels["C2"] = Channel("C2", "secret", private=True)
    made.groups["S1"] = Group("S1", "oncall", ("U1",))
    return made


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("restart kimi-k2.5 for @alice", "restart kimi-k2.5 for <@U1>"),
        ("see #llm-ops", "see <#C1|llm-ops>"),
        ("@oncall look", "<!subteam^S1|@oncall> look"),
        ("@kimi status", "<@U0KIMIBOT> status"),
        ("@nobody #nowhere", "@nobody #nowhere"),
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        ("mail alice@alice", "mail alice@alice"),
        ("see https://example.com/a?b=1&c", "see <https://example.com/a?b=1&amp;c>"),
        ("<!here>", "&lt;!here&gt;"),
        ("@alice, @alice.", "<@U1>, <@U1>."),
    ],
)
def test_typed_text_is_escaped_and_its_names_resolved(typed: str, sent: str) -> None:
    assert payloads.resolve(workspace(), typed) == sent


def test_what_was_typed_becomes_rich_text() -> None:
    text = payloads.resolve(workspace(), "@alice & @oncall see #llm-ops https://example.com/?a&b <now>")
    (section,) = payloads.typed_block(text)["elements"]
    assert section["elements"] == [
        {"type": "user", "user_id": "U1"},
        {"type": "text", "text": " & "},
        {"type": "usergroup", "usergroup_id": "S1"},
        {"type": "text", "text": " see "},
        {"type": "channel", "channel_id": "C1"},
        {"type": "text", "text": " "},
        {"type": "link", "url": "https://example.com/?a&b"},
        {"type": "text", "text": " <now>"},
    ]


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_nothing_typed_opens_a_bracket_by_itself(typed: str) -> None:
    made = Workspace()
    made.users.clear()
    rest = payloads.LINK.sub("", typed)
    assert "<" not in payloads.resolve(made, rest)


@pytest.mark.parametrize(
    ("channel", "name"),
    [("C1", "llm-ops"), ("C2", "privategroup"), ("D1", "directmessage")],
)
def test_a_command_names_its_channel_as_slack_does(channel: str, name: str) -> None:
    made = workspace()
    made.direct("U1")
    payload = payloads.slash(
        made,
        user="U1",
        channel=made.channels[channel],
        command="/kimi",
        text="status",
        trigger_id="1.2.3",
        response_url="http://x",
    )
    assert payload["channel_name"] == name
    assert all(isinstance(value, str) for value in payload.values())
    assert "thread_ts" not in payload


def test_events_have_ids_of_their_own() -> None:
    made = workspace()
    message = PostedMessage("C1", made.next_ts(), "U1", "x", thread_ts="1700000000.000001")
    first, second = (payloads.app_mention(made, message) for _ in range(2))
    assert first["event_id"] != second["event_id"]
    assert first["event"]["thread_ts"] == "1700000000.000001"


def test_an_ephemeral_is_not_handed_back() -> None:
    made = workspace()
    message = PostedMessage("C1", made.next_ts(), "U0KIMIBOT", "x", bot=True, seen_by="U1")
    payload = payloads.message_actions(
        made, message, [], user="U1", trigger_id="1.2.3", response_url="http://x"
    )
    assert payload["container"]["is_ephemeral"] is True
    assert "message" not in payload
