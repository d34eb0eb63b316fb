"""What is said elsewhere of messages that Slack would not take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.blocks import (
    MOST_BLOCKS,
    MOST_BYTES,
    Block,
    Message,
    context,
    cut,
    make_message,
    mention,
    mention_channel,
    say_code,
    section,
    weigh,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bot.core.events import ChannelId

_MENDING = {
    "not_in_channel": "Invite kimi there with `/invite`.",
    "channel_not_found": "Invite kimi there with `/invite`, or correct the channel in its configuration.",
    "is_archived": "Unarchive it, or name another channel in kimi's configuration.",
    "channel_is_archived": "Unarchive it, or name another channel in kimi's configuration.",
    "missing_scope": "Reinstall the app with the scopes that `kimi-bot manifest` lists.",
    "no_permission": "Reinstall the app with the scopes that `kimi-bot manifest` lists.",
}
_MOST_PLAIN = 2_500  # bytes of JSON; chat.update takes 4,000 bytes
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


def render_plain(answer: Message, code: str) -> Message:
    """The same in text alone and short, for a Slack that answered `code` to its blocks."""
    told = cut("\n".join(_words_of(answer.blocks)) or answer.text, _MOST_PLAIN)
    return Message(
        f"{told}\nShortened, without tables and buttons: Slack answers {say_code(code)} to all of it."
    )


def _words_of(blocks: Sequence[Block]) -> Iterator[str]:
    """What stands in sections and below them; not in tables, logs and on buttons."""
    for block in blocks:
        if block["type"] == "section" and "text" in block:
            yield block["text"]["text"]
        elif block["type"] == "context":
            yield from (element["text"] for element in block["elements"] if "text" in element)


def render_aside(answer: Message, channel: str | None, code: str | None) -> Message:
    """A private answer, in the conversation with who asked, where no button of a channel works.

    `code`: what Slack said where it was to be told; None: no such place is known.
    """
    kept = [block for block in answer.blocks if block["type"] != "actions"]
    told = (
        "Told here, because "
        if channel is None
        else f"Asked in {mention_channel(channel)}; told here, because "
    )
    told += (
        "kimi went down before it could answer you"
        if code is None
        else "Slack would not show it to you there"
    )
    told += "." if code is None else f": it answers {say_code(code)}."
    if len(kept) < len(answer.blocks):
        where = "in a channel" if channel is None else "there"
        told += f" It has buttons that work {where} alone: type it with `/kimi` there to see them."
    return Message(f"{answer.text}\n{told}", (*kept[: MOST_BLOCKS - 1], context(told)))


def name_place(channel: ChannelId) -> str:
    """A channel, or the conversation with a person."""
    return mention(channel) if channel.startswith("U") else mention_channel(channel)
