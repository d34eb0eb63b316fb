"""What is said elsewhere of messages that Slack would not take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.blocks import (
    MOST_BLOCKS,
    MOST_BYTES,
    Block,
    Message,
    context,
    make_message,
    mention,
    mention_channel,
    say_code,
    section,
    weigh,
)

if TYPE_CHECKING:
    from bot.core.events import ChannelId

_MENDING = {
    "not_in_channel": "Invite kimi there with `/invite`.",
    "channel_not_found": "Invite kimi there with `/invite`, or correct the channel in its configuration.",
    "is_archived": "Unarchive it, or name another channel in kimi's configuration.",
    "channel_is_archived": "Unarchive it, or name another channel in kimi's configuration.",
    "missing_scope": "Reinstall the app with the scopes that `kimi-bot manifest` lists.",
    "no_permission": "Reinstall the app with the scopes that `kimi-bot manifest` lists.",
}
_RESTRICTED = "Whoever manages the channel has to let kimi post there."
_UNKNOWN = "`kimi-bot check` looks at tokens, scopes and channels."


def mend(code: str) -> str:
    """One sentence: who has to do what, so that Slack takes it again."""
    if code.startswith(("restricted_action", "posting_to_channel_denied")):
        return _RESTRICTED
    return _MENDING.get(code, _UNKNOWN)


def render_refusal(channel: ChannelId, method: str, code: str) -> Message:
    """For the operators: the root under which all follows that cannot be told where it belongs."""
    told = (
        f"Slack takes nothing more of this in {name_place(channel)}: it answers {say_code(code)} to "
        f"{say_code(method)}. What cannot be told there is told here. {mend(code)}"
    )
    return make_message(told, section(told))


def render_refusal_with(refusal: Message, present: Message) -> Message:
    """The same root above the newest present of what it stands for."""
    blocks: list[Block] = [*refusal.blocks, *present.blocks][:MOST_BLOCKS]
    while len(blocks) > len(refusal.blocks) and weigh(blocks) > MOST_BYTES:
        blocks.pop()
    return Message(f"{refusal.text}\n{present.text}", tuple(blocks))


def render_untold(channel: ChannelId, code: str, *, fallback: ChannelId | None) -> Message:
    """For who asked: the thread that should stand in the channel never will."""
    place = f" What kimi has to say is told in {mention_channel(fallback)}." if fallback else ""
    told = (
        f"What you asked for is under way, but its thread cannot be shown: Slack answers {say_code(code)} "
        f"for {name_place(channel)}.{place} `/kimi status` says how it goes. {mend(code)}"
    )
    return make_message(told, section(told))


def render_aside(answer: Message, channel: str, code: str) -> Message:
    """A private answer, in the conversation with who asked, where no button of a channel works."""
    kept = [block for block in answer.blocks if block["type"] != "actions"]
    told = (
        f"Asked in {mention_channel(channel)}; told here, because Slack would not show it to you there: "
        f"it answers {say_code(code)}."
    )
    if len(kept) < len(answer.blocks):
        told += " It has buttons that work there alone: type it with `/kimi` there to see them."
    return Message(f"{answer.text}\n{told}", (*kept[: MOST_BLOCKS - 1], context(told)))


def name_place(channel: ChannelId) -> str:
    """A channel, or the conversation with a person."""
    return mention(channel) if channel.startswith("U") else mention_channel(channel)
