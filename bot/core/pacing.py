"""How fast Slack may be spoken to: one bucket a channel, one budget for edits, methods parked for a time.

What is decided here is one process's own pace and turn; the rate all processes share is kept in Redis.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

POST = "chat.postMessage"
UPDATE = "chat.update"
ANYWHERE = ""  # stands for every channel


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between messages and how many may come at once.

    Slack takes about one message a second a channel with short bursts, and fifty `chat.update` a minute. A
    bucket lets `burst + 60 / interval` through in the worst minute: with the numbers here, fifty edits.
    """

    post_interval: float = 1.0
    post_burst: int = 3
    edit_interval: float = 60 / 45  # of all roots together
    edit_burst: int = 5
    root_interval: float = 3.0  # between two edits of the same root


@dataclass(slots=True)
class Bucket:
    """A token bucket, told as the moment at which it will be full again (generic cell rate algorithm)."""

    interval: float
    burst: int
    full_at: float = float("-inf")

    def ready(self, now: float) -> float:
        """When the next may go; `now` where it may go at once."""
        return max(now, self.full_at - (self.burst - 1) * self.interval)

    def take(self, now: float) -> None:
        self.full_at = max(self.full_at, now) + self.interval

    def give_back(self) -> None:
        self.full_at -= self.interval

    def full(self, now: float) -> bool:
        return self.full_at <= now


@dataclass(slots=True)
class Lane:
    """Those who share one rate. `spent` holds the rate; `promised` keeps first come, first served.

    `shut`: other processes have used the rate up until then.
    """

    spent: Bucket
    promised: Bucket
    promises: dict[str, float] = field(default_factory=dict)
    shut: float = float("-inf")

    def due(self, thread: str, barred: float, now: float) -> float:
        """`barred`: until when it may not go for a reason of its own. Till then it holds no turn."""
        if barred > now:
            self.leave(thread)
            return barred
        if thread not in self.promises:
            self.promises[thread] = self.promised.ready(now)
            self.promised.take(self.promises[thread])
        return self.spent.ready(max(now, self.shut, self.promises[thread]))

    def take(self, thread: str, now: float) -> None:
        self.promises.pop(thread, None)
        self.spent.take(now)

    def leave(self, thread: str) -> None:
        """Others need not wait for its turn."""
        if self.promises.pop(thread, None) is not None:
            self.promised.give_back()

    def give_back(self, thread: str, seconds: float, now: float) -> None:
        """The token was not used; the thread keeps its turn."""
        self.spent.give_back()
        self.promises[thread] = now
        self.shut = max(self.shut, now + seconds)

    def unused(self, now: float) -> bool:
        return not self.promises and self.shut <= now and self.spent.full(now) and self.promised.full(now)


class Does(StrEnum):
    """What a thread does next."""

    HEAD = "head"  # sends the oldest entry of its queue
    EDIT = "edit"  # shows the present in its root
    WAIT = "wait"
    REST = "rest"  # nothing can be sent until something new comes


@dataclass(frozen=True, slots=True)
class Waiting:
    """What one thread has to send. `head`: the methods its oldest entry needs; empty where there is none."""

    thread: str
    channel: str
    head: tuple[str, ...] = ()
    edit: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    does: Does
    seconds: float = 0.0  # for WAIT: until it is worth asking again


class Pacing:
    """Tells each thread what it may send now. Told the time in seconds of any clock that never jumps."""

    def __init__(self, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self._channels: dict[str, Lane] = {}
        self._edits = self._lane(self.pace.edit_interval, self.pace.edit_burst)
        self._edited: dict[str, float] = {}
        self._parked: dict[tuple[str, str], float] = {}  # by method and channel; ANYWHERE: all of them
        self._held: dict[str, float] = {}
        self._edits_held: dict[str, float] = {}
        self._closed = float("-inf")

    def choose(self, waiting: Waiting, now: float) -> Step:
        """The next step; an answer of HEAD or EDIT has used the token and must be followed.

        Transitions go before edits, unless the head is held up longer than the edit.
        """
        head = self._head_due(waiting, now)
        edit = self._edit_due(waiting, now)
        if head is not None and head <= now:
            self._channel(waiting.channel).take(waiting.thread, now)
            return Step(Does.HEAD)
        if edit is not None and edit <= now:
            self._edits.take(waiting.thread, now)
            self._edited[waiting.thread] = now
            return Step(Does.EDIT)
        due = [moment for moment in (head, edit) if moment is not None]
        return Step(Does.WAIT, min(due) - now) if due else Step(Does.REST)

    def postpone(self, waiting: Waiting, does: Does, seconds: float, now: float) -> None:
        """The step that was chosen is not followed: other processes have used the rate up."""
        if does is Does.EDIT:
            self._edited.pop(waiting.thread, None)
            self._edits.give_back(waiting.thread, seconds, now)
        else:
            self._channel(waiting.channel).give_back(waiting.thread, seconds, now)

    def park(self, method: str, seconds: float, now: float, *, channel: str = ANYWHERE) -> None:
        """Slack said Retry-After for this method, for a call that named this channel; others go on.

        Slack does not say whether a rate is the channel's or the whole workspace's. It is taken for the
        channel's, so that nobody else waits for it, until a second channel meets it too.
        """
        elsewhere = [
            until
            for (other, place), until in self._parked.items()
            if other == method and place != channel and until > now
        ]
        key = (method, ANYWHERE if elsewhere else channel)
        self._parked[key] = max(now + seconds, self._parked.get(key, now))

    def close(self, seconds: float, now: float) -> None:
        """Slack takes nothing from us at all: nobody tries before that."""
        self._closed = now + seconds

    def open(self) -> None:
        """Slack has taken something."""
        self._closed = float("-inf")

    def hold(self, thread: str, seconds: float, now: float) -> None:
        """The thread's head failed: not again before that. Its edits go on."""
        self._held[thread] = now + seconds

    def hold_edit(self, thread: str, seconds: float, now: float) -> None:
        """An edit of its root failed: no edit before that. Its head goes on, and others have the rate."""
        self._edits_held[thread] = now + seconds

    def forget(self, thread: str, channel: str) -> None:
        """The thread has nothing more to send: others need not wait for its turn."""
        self._edits.leave(thread)
        if channel in self._channels:
            self._channels[channel].leave(thread)

    def prune(self, now: float) -> None:
        """Drop what no longer holds anybody up, so that memory does not grow with the threads ever seen."""
        self._channels = {name: lane for name, lane in self._channels.items() if not lane.unused(now)}
        self._edited = {
            thread: at for thread, at in self._edited.items() if at + self.pace.root_interval > now
        }
        self._parked = {key: until for key, until in self._parked.items() if until > now}
        self._held = {thread: until for thread, until in self._held.items() if until > now}
        self._edits_held = {thread: until for thread, until in self._edits_held.items() if until > now}

    def _head_due(self, waiting: Waiting, now: float) -> float | None:
        if not waiting.head:
            return None
        held = self._held.get(waiting.thread, now)
        parked = (self._parked_until(method, waiting.channel, now) for method in waiting.head)
        return self._channel(waiting.channel).due(waiting.thread, max(held, self._closed, *parked), now)

    def _edit_due(self, waiting: Waiting, now: float) -> float | None:
        if not waiting.edit:
            return None
        parked = self._parked_until(UPDATE, waiting.channel, now)
        edited = self._edited.get(waiting.thread, float("-inf")) + self.pace.root_interval
        held = self._edits_held.get(waiting.thread, now)
        return self._edits.due(waiting.thread, max(edited, held, parked, self._closed), now)

    def _parked_until(self, method: str, channel: str, now: float) -> float:
        return max(self._parked.get((method, channel), now), self._parked.get((method, ANYWHERE), now))

    def _channel(self, channel: str) -> Lane:
        if channel not in self._channels:
            self._channels[channel] = self._lane(self.pace.post_interval, self.pace.post_burst)
        return self._channels[channel]

    @staticmethod
    def _lane(interval: float, burst: int) -> Lane:
        return Lane(Bucket(interval, burst), Bucket(interval, burst))
