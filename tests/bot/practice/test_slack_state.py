"""What the stand-in remembers, and who hears of changes."""

from __future__ import annotations

import pytest

from bot.practice.slack_state import Change, Channel, PostedMessage, Refused, User, Workspace


def workspace() -> Workspace:
    made = Workspace()
    made.users["U1"] = User("U1", "alice")
    made.channels["C1"] = Channel("C1", "llm-ops")
    made.channels["C2"] = Channel("C2", "secret", private=True, joined=False)
    return made


def post(
    made: Workspace, text: str, thread_ts: str | None = None, *, broadcast: bool = False
) -> PostedMessage:
    ts = made.next_ts()
    return made.post(PostedMessage("C1", ts, "U1", text, thread_ts=thread_ts, broadcast=broadcast))


def test_a_ts_is_unique_and_increasing() -> None:
    made = Workspace()
    stamps = [made.next_ts() for _ in range(1000)]
    assert stamps == sorted(set(stamps))
    assert all(len(ts) == 17 and ts[10] == "." for ts in stamps)


def test_a_private_channel_without_the_bot_does_not_exist() -> None:
    for channel in ("C2", "C9", "llm-ops", "#llm-ops"):
        with pytest.raises(Refused, match="channel_not_found"):
            workspace().channel(channel)


def test_the_channel_shows_roots_and_broadcasts() -> None:
    made = workspace()
    root = post(made, "root")
    post(made, "quiet", root.ts)
    post(made, "loud", root.ts, broadcast=True)
    post(made, "other")
    assert [message.text for message in made.roots("C1")] == ["root", "loud", "other"]
    assert [message.text for message in made.thread("C1", root.ts)] == ["root", "quiet", "loud"]


def test_an_edit_keeps_what_was_said_before() -> None:
    made = workspace()
    message = post(made, "one")
    made.edit(message, "two", [{"type": "divider"}])
    assert (message.text, message.versions) == ("two", [("one", ())])
    assert message.edited is not None
    assert float(message.edited) > float(message.ts)


def test_a_deleted_root_with_replies_leaves_a_tombstone() -> None:
    made = workspace()
    root = post(made, "root")
    reply = post(made, "reply", root.ts)
    made.delete(root)
    assert root.tombstone
    with pytest.raises(Refused, match="message_not_found"):
        made.message("C1", root.ts)
    made.delete(reply)
    assert made.messages("C1") == [root]


def test_watchers_are_told_and_may_leave() -> None:
    made = workspace()
    heard: list[Change] = []
    leave = made.watch(heard.append)
    message = post(made, "one")
    leave()
    post(made, "two")
    assert heard == [Change("posted", message)]


def test_a_person_has_a_dm() -> None:
    made = workspace()
    assert made.direct("U1") is made.direct("U1")
    assert made.channel("D1").person == "U1"
    with pytest.raises(Refused, match="channel_not_found"):
        made.direct("U9")


def test_the_words_a_reader_sees() -> None:
    cell = {
        "type": "rich_text",
        "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "12 s"}]}],
    }
    blocks = (
        {"type": "header", "text": {"type": "plain_text", "text": "kimi-k2.5"}},
        {
            "type": "section",
            "text": {"type": "mrkdwn", "text": "*weights*"},
            "fields": [{"type": "mrkdwn", "text": "12/64"}],
        },
        {
            "type": "rich_text",
            "elements": [
                {
                    "type": "rich_text_preformatted",
                    "elements": [{"type": "text", "text": "a"}, {"type": "link", "url": "https://b"}],
                },
            ],
        },
        {"type": "table", "rows": [[{"type": "raw_text", "text": "weights"}, cell]]},
        {"type": "actions", "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Stop"}}]},
    )
    message = PostedMessage("C1", "1.0", "U1", "fallback", blocks=blocks)
    assert message.plain.split("\n") == [
        *("kimi-k2.5", "*weights*", "12/64", "ahttps://b", "weights", "12 s", "Stop"),
    ]
    assert PostedMessage("C1", "1.0", "U1", "fallback").plain == "fallback"


def test_an_action_is_found_by_its_id_and_value() -> None:
    elements = [
        {"type": "button", "action_id": "a", "value": "1"},
        {"type": "button", "action_id": "a", "value": "2"},
    ]
    message = PostedMessage("C1", "1.0", "U1", "", blocks=({"type": "actions", "elements": elements},))
    assert message.action("a")[1] == elements[0]
    assert message.action("a", "2")[1] == elements[1]
    with pytest.raises(LookupError):
        message.action("b")
