"""Sends what one thread has, in order, until nothing is left; a crash at any point loses and doubles nothing.

Before a message goes out its attempt is written down; once Slack has it, one transaction takes it out of
the queue. Who finds an attempt (another process, or this one after an uncertain answer) reads back first.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import structlog

from bot.clients import slack_files
from bot.clients.records import Address, FileNote, Parked
from bot.clients.slack_calls import Meaning, meaning_of
from bot.clients.slack_claims import (
    address_by,
    channel_of,
    hangs_on_root,
    methods_of,
    thread_ts_of,
    waiting_of,
)
from bot.clients.slack_messages import permalink, plain, post, read_back, update
from bot.clients.slack_outlet import Outlet, Sent
from bot.clients.slack_session import speak_while
from bot.clients.store_queue import new_attempt
from bot.core.pacing import POST, Does
from bot.errors import (
    OwnershipLost,
    SlackBusy,
    SlackError,
    SlackRefused,
    SlackUncertain,
    SlackUnreachable,
    StoreUnavailable,
    TokenRefused,
)

if TYPE_CHECKING:
    from bot.clients.records import Outgoing
    from bot.clients.store_queue import Claim
    from bot.core.events import MessageTs

POISONED = frozenset({"internal_error", "fatal_error"})
READS = frozenset({"conversations.history", "conversations.replies"})  # no word on what was to be sent
PLAIN_AFTER = 8  # such answers in a row to one message, before it is tried as plain text
GIVE_UP_AFTER = 8  # more of them, to the plain text: minutes in all
FILE_TRIES = 5  # uncertain tries to hand over a file's bytes, before text stands in for it
LINK_SECONDS = 5.0
LINK_TRIES = 3
LOGGED = 2000  # characters of a message that is told nowhere else

log = structlog.get_logger()


class Sender:
    """One thread's worker. `wake` ends a pause, for something new may have come."""

    def __init__(self, thread: str, outlet: Outlet) -> None:
        self.thread = thread
        self.wake = asyncio.Event()
        self._outlet = outlet
        self._queue = outlet.queue
        self.shows = False  # whether it waits for its turn to show the present
        self.until = float("-inf")  # monotonic time up to which the lease surely is ours
        self._failures = 0  # of the head, in a row
        self._edit_failures = 0
        self._choked: defaultdict[str, list[str]] = defaultdict(list)  # POISONED answers, by message

    def assure(self) -> None:
        """Raises OwnershipLost where the lease may have ended: another process may be sending by now."""
        if time.monotonic() >= self.until:
            raise OwnershipLost(f"the lease on {self.thread} ended before a call could go out")

    async def run(self) -> None:
        """Ends when there is nothing to send now. Raises StoreUnavailable, OwnershipLost."""
        speak_while(self.assure)
        try:
            while await self._step():
                pass
        finally:
            with contextlib.suppress(StoreUnavailable):
                await self._queue.let_go(self.thread, self._outlet.owner)

    async def _step(self) -> bool:
        self.wake.clear()
        self.shows = False
        outlet = self._outlet
        claim = await self._queue.claim(self.thread, outlet.owner, outlet.timing.lease)
        if claim is None:
            return False
        self.until = claim.until
        if claim.refused and not claim.address and await self._park_orphan(claim, claim.refused):
            return True
        await self._link(claim)
        waiting = waiting_of(claim)
        self.shows = waiting.edit
        step = outlet.pacing.choose(waiting, time.monotonic())
        if step.does in {Does.HEAD, Does.EDIT}:
            step = await outlet.admit(step, waiting)
        match step.does:
            case Does.HEAD if claim.head:
                await self._try(claim, claim.head)
            case Does.EDIT if claim.edit and claim.address:
                await self._try(claim, claim.edit)
            case Does.WAIT:
                await self._pause(step.seconds)
            case _:
                outlet.pacing.forget(self.thread, channel_of(claim))
                await self._queue.rest(self.thread)
                return False
        return True

    async def _try(self, claim: Claim, message: Outgoing) -> None:
        """One try of the head or of the edit, and what follows from its failure."""
        try:
            await (self._edit if message.kind == "edit" else self._deliver)(claim, message)
        except TokenRefused as refusal:
            self._outlet.lock(refusal)
            await self._fail(claim, message, refusal)
        except SlackRefused as refusal:
            await self._park(claim, message, method=refusal.method, code=refusal.code)
        except SlackError as error:
            await self._fail(claim, message, error)
        else:
            self._forget(message)

    def _forget(self, message: Outgoing) -> None:
        """It no longer waits. An edit is no sign that the head, which may wait longer, is well."""
        self._choked.pop(message.id, None)
        if message.kind == "edit":
            self._edit_failures = 0
        else:
            self._failures = 0

    async def _fail(self, claim: Claim, message: Outgoing, error: SlackError) -> None:
        log.warning(
            "slack_call_failed", thread=self.thread, id=message.id, method=error.method, code=error.code
        )
        self._outlet.counts["failed"] += 1
        # Something in front of Slack may refuse a message too, in no words of Slack's: 413, 403.
        poisoned = error.code in POISONED or error.code.startswith("HTTP status 4")
        if poisoned and error.method not in READS:
            self._choked[message.id].append(error.code)
        if isinstance(error, SlackBusy):
            self._outlet.park(error, channel_of(claim))
        if message.kind == "edit":  # replies go on
            if poisoned:  # what Slack answers to this one, others need not wait for
                self._edit_failures += 1
                seconds = self._backoff(self._edit_failures)
                self._outlet.pacing.hold_edit(self.thread, seconds, time.monotonic())
            return
        if isinstance(error, SlackBusy | SlackUnreachable | TokenRefused) and claim.attempted is None:
            await self._queue.withdraw(message, self._outlet.owner)
        if isinstance(error, TokenRefused):
            return  # all wait together
        if not isinstance(error, SlackBusy):
            self._failures += 1
            self._outlet.pacing.hold(self.thread, self._backoff(self._failures), time.monotonic())
        elif error.method not in methods_of(claim):
            self._outlet.pacing.hold(self.thread, error.retry_after, time.monotonic())

    def _backoff(self, failures: int) -> float:
        timing = self._outlet.timing
        return min(timing.longest, timing.settle * 2.0 ** min(failures - 1, 16))

    async def _pause(self, seconds: float) -> None:
        """Until `seconds` passed or something new came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wake.wait()

    # The head of the queue.

    async def _deliver(self, claim: Claim, head: Outgoing) -> None:
        outlet = self._outlet
        if head.id not in outlet.sent:
            outlet.sent[head.id] = await self._find(claim, head) or await self._send(claim, head)
        try:
            await self._queue.accept(claim, outlet.owner, outlet.sent[head.id].address)
        except OwnershipLost:
            del outlet.sent[head.id]  # whoever has the thread now finds it there
            raise
        # It stays known: a fail-over may lose what Redis has just taken, and bring the head back.
        outlet.accepted(head)

    async def _find(self, claim: Claim, head: Outgoing) -> Sent | None:
        """The message, if an earlier try brought it to Slack."""
        attempt = claim.attempted
        if attempt is None:
            return None
        channel, thread_ts = channel_of(claim), thread_ts_of(claim)
        try:
            ts = await read_back(self._outlet.web, head, attempt, channel=channel, thread_ts=thread_ts)
        except TokenRefused:
            raise
        except SlackRefused as refusal:
            # Without the right to read, sending again is what loses nothing.
            log.warning("read_back_refused", thread=self.thread, id=head.id, code=refusal.code)
            return None
        if ts is None:
            return None
        log.info("message_found", thread=self.thread, id=head.id, ts=ts)
        return Sent(address_by(claim, head, Address(channel=channel, ts=ts)))

    async def _send(self, claim: Claim, head: Outgoing) -> Sent:
        self._give_up_on(head)
        if claim.attempted is None:
            await self._queue.attempt(self.thread, self._outlet.owner, new_attempt(head))
        if head.kind == "upload":
            await self._upload(claim, head)
            return Sent()
        return Sent(address_by(claim, head, await self._post(head, thread_ts_of(claim))))

    def _give_up_on(self, head: Outgoing) -> None:
        """Raises SlackRefused for what Slack chokes on as plain text too, that the thread may go on.

        Asked once Slack has answered that it does not have it: a Slack that answers nothing refuses nothing.
        """
        codes = self._choked[head.id]
        kinds = 2 if head.kind == "upload" else 1  # the file itself, and what stands in for it
        if len(codes) >= kinds * PLAIN_AFTER + GIVE_UP_AFTER:
            raise SlackRefused(POST, codes[-1])

    def _palatable(self, message: Outgoing, after: int = 1) -> Outgoing:
        """What Slack chokes on again and again is tried as plain text."""
        return plain(message) if len(self._choked[message.id]) >= after * PLAIN_AFTER else message

    async def _post(self, message: Outgoing, thread_ts: MessageTs | None, *, after: int = 1) -> Address:
        web = self._outlet.web
        try:
            return await post(web, self._palatable(message, after), thread_ts)
        except SlackRefused as refusal:
            if not refusal.repairable:
                raise
            log.warning("message_simplified", thread=self.thread, id=message.id, code=refusal.code)
            tagged = "metadata" not in refusal.code
            return await post(web, plain(message), thread_ts, tagged=tagged)

    async def _upload(self, claim: Claim, head: Outgoing) -> None:
        content = await self._queue.file(head)
        try:
            await self._hand_over(claim, head, content)
        except TokenRefused:
            raise
        except SlackRefused as refusal:
            log.warning("upload_refused", thread=self.thread, id=head.id, code=refusal.code)
            stand_in = slack_files.stand_in(head, content, refusal.code)
            await self._post(stand_in, thread_ts_of(claim), after=2)  # the first was the file itself

    async def _hand_over(self, claim: Claim, head: Outgoing, content: bytes | None) -> None:
        web, attempt = self._outlet.web, claim.attempted
        file_id = attempt.file if attempt else None
        if content is None:
            raise SlackRefused(slack_files.RESERVE, "no_content")
        if len(self._choked[head.id]) >= PLAIN_AFTER:
            raise SlackRefused(slack_files.COMPLETE, "internal_error")
        if file_id is None:
            note = head.file or FileNote(name="log.txt", title="log")
            try:
                reserved = partial(self._note_file, head)
                file_id = await slack_files.upload(web, note, content, reserved=reserved)
            except (SlackUncertain, SlackUnreachable) as error:
                if self._failures + 1 < FILE_TRIES:
                    raise
                raise SlackRefused(error.method, error.code) from error
        await slack_files.complete(
            web, head, file_id, channel=channel_of(claim), thread_ts=thread_ts_of(claim)
        )

    async def _note_file(self, head: Outgoing, file_id: str) -> None:
        attempt = new_attempt(head).model_copy(update={"file": file_id})
        await self._queue.attempt(self.thread, self._outlet.owner, attempt)

    # The root's present.

    async def _edit(self, claim: Claim, edit: Outgoing) -> None:
        if claim.address is None:
            return
        try:
            await self._update(edit, claim.address)
        except SlackRefused as refusal:
            if meaning_of(refusal.code) is not Meaning.GONE:
                raise
            await self._post_anew(claim, edit, claim.address, refusal)
        else:
            await self._queue.edited(claim, self._outlet.owner)
            self._outlet.accepted(edit)

    async def _update(self, edit: Outgoing, address: Address) -> None:
        try:
            await update(self._outlet.web, self._palatable(edit), address)
        except SlackRefused as refusal:
            if not refusal.repairable:
                raise
            log.warning("message_simplified", thread=self.thread, id=edit.id, code=refusal.code)
            await update(self._outlet.web, plain(edit), address)

    async def _post_anew(self, claim: Claim, edit: Outgoing, address: Address, refusal: SlackRefused) -> None:
        """The message that showed the present cannot be edited: a reply takes over, once."""
        log.warning("edit_gone", thread=self.thread, ts=address.edited, code=refusal.code)
        name = f"{self.thread}:present:{address.edited}"
        reply = edit.model_copy(update={"id": name, "kind": "present"})
        if not await self._queue.anew(claim, self._outlet.owner, reply):
            raise refusal

    async def _link(self, claim: Claim) -> None:
        """The root's permalink, for those who are told that the service is taken."""
        address, tries = claim.address, self._outlet.link_tries
        tried = tries.get(self.thread, 0)
        if address is None or address.permalink or self._outlet.locked or tried >= LINK_TRIES:
            return
        tries[self.thread] = tried + 1
        try:
            async with asyncio.timeout(LINK_SECONDS):
                link = await permalink(self._outlet.web, address)
        except (SlackError, TimeoutError) as error:
            log.warning("permalink_unknown", thread=self.thread, error=str(error))
            return
        await self._queue.link_address(self.thread, link)
        tries.pop(self.thread, None)

    # What Slack refused for good.

    async def _park_orphan(self, claim: Claim, code: str) -> bool:
        """What cannot go out because the root was refused; False when the head needs no root of ours."""
        for message in (claim.head, claim.edit):
            if message and hangs_on_root(message):
                await self._park(claim, message, method=POST, code=code)
                return True
        return False

    async def _park(self, claim: Claim, message: Outgoing, *, method: str, code: str) -> None:
        parked = Parked(outgoing=message, method=method, code=code, at=datetime.now(UTC))
        content = await self._queue.file(message) if message.kind == "upload" else None
        # First: who dies in between meets the refusal again, and tells nothing twice.
        await self._outlet.alerts.tell(parked, content)
        await self._queue.park(claim, self._outlet.owner, parked)
        self._forget(message)
        self._outlet.counts["parked"] += 1
        log.error(
            "message_parked",
            thread=self.thread,
            id=message.id,
            channel=message.channel,
            method=method,
            code=code,
            text=message.text[:LOGGED],
        )
