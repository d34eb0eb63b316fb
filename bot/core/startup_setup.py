"""What the watched start runs with: when it is asked for, what its log adds, when changes are told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.actions import LookAtSetup, SetupChanged
from bot.core.changes import Change, compare_all
from bot.core.events import PhaseId, Verb
from bot.core.setup import Setup, read_arguments, read_version

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import LogLine, Member, SetupSeen
    from bot.core.startup_state import Plan, StartupState
    from bot.core.startup_turn import Turn

KNOWN_WITHIN = timedelta(seconds=60)  # what has not come by then is done without
_EARLY = frozenset({PhaseId.STOPPING, PhaseId.PROCESS})  # the engine has not said its arguments yet
_TELLING = ("server_args", "args: ", "vLLM", "LLM engine (v")  # the cheap look, before the patterns


def read_setup(turn: Turn, name: Member, line: LogLine) -> None:
    """The engine's own words about its arguments and its version; the first ones count."""
    if line.partial or not _tells(line.reading):
        return
    known = turn.state.setup.seen.get(name, Setup())
    if known.arguments is None and (found := read_arguments(line.reading)) is not None:
        arguments, whole = found
        turn.state.setup.seen[name] = known = replace(known, arguments=arguments, whole=whole)
    if not turn.state.setup.told and (version := read_version(line.reading)):
        turn.state.setup.seen[name] = replace(known, versions=version | known.versions)


def _tells(reading: str) -> bool:
    for word in _TELLING:  # noqa: SIM110 - every line comes by here, and a generator costs more
        if word in reading:
            return True
    return False


def take_setup(turn: Turn, event: SetupSeen) -> None:
    setup = turn.state.setup
    if event.member not in setup.answered:
        setup.answered.append(event.member)
    if event.setup is not None:
        setup.seen[event.member] = event.setup.filled_from(setup.seen.get(event.member, Setup()))


def check_setup(turn: Turn, now: datetime) -> None:
    """Ask once for each member that has begun its new start; tell once what changed."""
    setup = turn.state.setup
    if setup.told or turn.plan.verb is Verb.STOP:
        return
    for name, member in turn.state.members.items():
        if name not in setup.asked and member.invocation is not None and not member.provisional:
            setup.asked.append(name)
            setup.since = setup.since or now
            turn.order(LookAtSetup(name))
    if setup.since is not None and _is_known(turn, now):
        setup.told = True
        _tell(turn)


def ask_again(turn: Turn) -> None:
    """After a crash of the process: what was asked and not answered."""
    setup = turn.state.setup
    for name in setup.asked:
        if name not in setup.answered and not setup.told:
            turn.order(LookAtSetup(name))


def _is_known(turn: Turn, now: datetime) -> bool:
    setup = turn.state.setup
    if setup.since is not None and now - setup.since >= KNOWN_WITHIN:
        return True
    answered = all(name in setup.answered for name in turn.state.members)
    said = all(name in setup.seen and setup.seen[name].arguments for name in turn.state.members)
    return answered and (said or turn.current(now)[0] not in _EARLY)


def _tell(turn: Turn) -> None:
    changes, stale = changes_of(turn.plan, turn.state), stale_members(turn.state)
    if changes or stale:
        since = turn.plan.last.at if turn.plan.last is not None else None
        turn.say(SetupChanged(changes, since, stale))


def changes_of(plan: Plan, state: StartupState) -> tuple[Change, ...]:
    """Against the last healthy start; nothing where that, or this one's setup, is not known."""
    return () if plan.last is None else compare_all(plan.last.setups, state.setup.seen)


def stale_members(state: StartupState) -> tuple[Member, ...]:
    """Whose unit files were changed on disk without systemd having read them."""
    return tuple(name for name in state.members if name in state.setup.seen and state.setup.seen[name].stale)


def setups_to_keep(plan: Plan, state: StartupState) -> dict[Member, Setup]:
    """For the next start to be compared with; what was not seen this time stays as it was known."""
    before = plan.last.setups if plan.last is not None else {}
    return {name: seen.filled_from(before.get(name, Setup())) for name, seen in state.setup.seen.items()}
