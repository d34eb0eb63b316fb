"""What nobody saw: kimi itself away, a host out of sight or booted anew, a log that lost what was written.

Nothing is concluded from not seeing. A reboot is known by the boot id alone, from the host or from a line.
What was to be proven of the start before it is void; the start that systemd makes after the boot takes its
place, since that is the one the service depends on now. Members that make up one service cannot do without
each other: the reboot of one of several ends the start.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, assert_never

from bot.core.actions import LogGap, Noticed, Resumed
from bot.core.events import HostLost, HostRestored, LogLine, LogMissed, Member, Verb
from bot.core.startup_end import fail_with, take_fall
from bot.core.startup_members import Fell
from bot.core.startup_scene import host_of
from bot.core.startup_state import Downfall, Sent
from bot.core.words import end_sentence, spell_duration

if TYPE_CHECKING:
    from bot.core.startup_state import MemberState
    from bot.core.startup_turn import Turn

CLEAN_SHORT = timedelta(seconds=10)  # an orderly hand-over as short as that is not worth a word
LOST_TOLD_AFTER = timedelta(seconds=30)
COMES_UP_WITHIN = timedelta(seconds=60)  # systemd queues what a boot starts before anybody can log in
_UNNOTICED = timedelta(seconds=60)  # a link may be dead that long before it is known to be
_APART = timedelta(seconds=5)  # two clocks


def tell_resumed(turn: Turn, away: timedelta | None, *, clean: bool, now: datetime) -> None:
    """Told by the state that is saved with it: who is killed again before that has told nothing.

    A failure that was seen waits anew for the rest of its story, which was written meanwhile.
    """
    fall = turn.state.fall
    if fall is not None:
        fall.since, fall.ended = now, fall.ended and now
    if away is None:
        return
    for member in turn.state.members.values():
        lost = member.unseen if member.lost_since is not None else None
        member.unseen = min(lost or now, now - away)
    if not (clean and away < CLEAN_SHORT):
        turn.say(Resumed(away))


# ---- the host in sight ------------------------------------------------------------------------------------


def take_sight(turn: Turn, event: HostLost | HostRestored | LogMissed, now: datetime) -> None:
    match event:
        case HostLost():
            _take_loss(turn, event, now)
        case HostRestored():
            _take_return(turn, event.member, now)
        case LogMissed():
            _take_missed(turn, event, now)
        case _:
            assert_never(event)


def _take_loss(turn: Turn, event: HostLost, now: datetime) -> None:
    member = turn.state.members[event.member]
    if member.lost_since is None:
        member.lost_since, member.unseen = now, now - _UNNOTICED
    member.lost, turn.changed = event.error, True
    turn.state.silence.pause(now)


def _take_return(turn: Turn, name: Member, now: datetime) -> None:
    member = turn.state.members[name]
    if member.lost_told and member.lost_since is not None:
        turn.say(
            Noticed(f"{host_of(name)} can be seen again after {spell_duration(now - member.lost_since)}.")
        )
    member.lost, member.lost_since, member.lost_told = None, None, False
    _count_anew(turn, member, now)
    turn.changed = True
    if all(each.lost is None for each in turn.state.members.values()):
        turn.state.silence.go_on(now)


def _count_anew(turn: Turn, member: MemberState, now: datetime) -> None:
    """What waits for the host to say something begins to wait when it can."""
    if member.sent in {Sent.ACCEPTED, Sent.UNANSWERED}:
        member.sent_at = now
    if member.rebooted is not None:
        member.rebooted = now
    fall = turn.state.fall
    if fall is not None and fall.member is not None and turn.state.members[fall.member] is member:
        fall.since, fall.ended = now, fall.ended and now


def check_sight(turn: Turn, now: datetime) -> None:
    for name, member in turn.state.members.items():
        if member.lost_since is None or member.lost_told or now - member.lost_since < LOST_TOLD_AFTER:
            continue
        member.lost_told = True
        away = spell_duration(now - member.lost_since)
        told = end_sentence(f"{host_of(name)} has been out of sight for {away}: {member.lost}")
        turn.say(Noticed(f"{told} Nothing is concluded from that; the watch goes on when it is back."))


# ---- the host booted anew ---------------------------------------------------------------------------------


def note_boot(
    turn: Turn, name: Member, boot: str | None, now: datetime, *, line: LogLine | None = None
) -> None:
    """Which boot of the host a fact comes from; `line`: the fact, where it was read from the log."""
    member = turn.state.members[name]
    if boot is None or boot == member.boot or boot in member.boots:
        return
    if member.boot is None:
        member.boot = boot
        return
    known = (member.invocation, *member.old)
    if line is not None and line.invocation is not None and line.invocation in known:
        member.boots.append(boot)  # of before what the host itself has told: no start outlives its boot
        return
    member.boots.append(member.boot)
    member.boot = boot
    if not turn.is_over:
        _take_reboot(turn, name, now)


def _take_reboot(turn: Turn, name: Member, now: datetime) -> None:
    member, host = turn.state.members[name], host_of(name)
    if turn.plan.verb is Verb.STOP:
        turn.say(Noticed(f"{host} was rebooted during the stop."))
        return
    if len(turn.state.members) > 1:
        fell = Fell(Downfall.REBOOTED, "host rebooted during the start", ended=True)
        take_fall(turn, fell, name=name, now=now)
        return
    if member.invocation is not None:
        member.old.append(member.invocation)
    member.invocation, member.begun, member.provisional = None, None, False
    member.rebooted = now
    member.held.clear()
    turn.forget_run()
    _begin_silence_anew(turn, now)
    sent = "" if turn.plan.verb is Verb.WATCH else f" The {turn.plan.verb} is not sent again."
    told = (
        f"{host} was rebooted in the midst of this start: what came before counts no more. "
        f"The start that systemd makes after the boot is followed from here on.{sent}"
    )
    turn.say(Noticed(told))


def _begin_silence_anew(turn: Turn, now: datetime) -> None:
    """The next start says the same lines, and they are news; how long the boot took teaches nothing."""
    silence = turn.state.silence
    silence.unsure = True
    silence.break_off(now)
    silence.shapes.clear()
    silence.bars.clear()
    silence.longest.clear()
    silence.key, turn.state.moved = None, None
    turn.state.slow.clear()


def check_reboot(turn: Turn, now: datetime) -> None:
    """A unit that does not come up with its host: seen down, without a job, a minute after the boot was."""
    for name, member in turn.state.members.items():
        unit, since = member.unit, member.rebooted
        if since is None or unit is None or member.unit_at is None or member.lost is not None:
            continue
        if member.unit_at - since >= COMES_UP_WITHIN and unit.job is None and unit.down:
            within = spell_duration(COMES_UP_WITHIN)
            sentence = (
                f"host rebooted: the unit did not come up with it, no new start and no job in {within}; "
                f"`systemctl enable {member.unit_name}` has systemd start it at each boot"
            )
            fail_with(turn, sentence, now, name=name)
            return


# ---- what the log no longer holds -------------------------------------------------------------------------


def _take_missed(turn: Turn, event: LogMissed, now: datetime) -> None:
    """Told once, and only what nobody had read before it went: a quiet service's cursor may be an old one."""
    member = turn.state.members[event.member]
    ours = now if event.until is None else event.until
    since = event.since
    if member.unseen is not None:
        read = member.unseen - (member.offset or timedelta())
        if event.until is not None and event.until <= read - _APART:
            return
        since = max(since, min(read, ours))
    log = event.path or ""
    if log in member.missed and (event.until or since) <= member.missed[log]:
        return
    member.missed[log] = ours
    turn.say(LogGap(host_of(event.member), since, event.until, event.path))
