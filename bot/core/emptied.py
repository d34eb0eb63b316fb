"""What is said of a Redis that came back empty: to who asks meanwhile, in each thread, and to all."""

from __future__ import annotations

from bot.core.words import end_sentence

BARRED = (
    "Redis came back empty, and kimi finds out first what was under way; nothing was done. "
    "Try again in a minute."
)
KEPT = (
    "*Redis came back empty.* kimi has written this down again from memory and goes on; nothing of this "
    "thread is missing. What is usual for this service is no longer known."
)
TAKEN_UP = (
    "*Redis came back empty* while kimi itself was away: the record of this is gone, and kimi knows it from "
    "Slack alone. The start that is under way is followed from the beginning of its log; what was told "
    "already is not told again."
)
ANNOUNCED = (
    "*Redis came back empty.* What was under way is written down again, from memory and from Slack: the "
    "locks of the services and the place of each thread. Gone are the history, what is usual for each "
    "service, mutes, and what was asked for a moment before and is not answered: ask for it again."
)
INCIDENT_FOUND = (
    "*Redis came back empty* while kimi itself was away: the record of this incident is gone, and kimi knows "
    "it from Slack alone. It goes on in this thread; what happened meanwhile is not known."
)
_LOST = "*Redis came back empty* while kimi itself was away, and the record of this is gone."


def say_not_followed(reason: str) -> str:
    """For a thread that nobody can go on with."""
    return f"{_LOST} It is not followed any more: {end_sentence(reason)}"


STOP_LOST = say_not_followed("whether the service stopped, `status` says")
