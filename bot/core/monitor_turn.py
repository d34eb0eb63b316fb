"""The working set of one watch and one turn of it: what is known, what is ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.monitor_state import MemberWatch, WatchStanding, WatchState

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import Member
    from bot.core.monitor_events import WatchAction
    from bot.core.monitor_state import WatchPlan
    from config.engine_file import EngineFile


class WatchTurn:
    """What the parts of the machine share. Only `state` outlives the process."""

    def __init__(self, plan: WatchPlan, engine: EngineFile, state: WatchState) -> None:
        self.plan = plan
        self.engine = engine
        self.state = state
        self._out: list[WatchAction] = []
        for name in plan.members:
            state.members.setdefault(name, MemberWatch())
        for name in [each for each in state.members if each not in plan.members]:
            del state.members[name]

    def begin_anew(self) -> None:
        """What was seen long ago proves nothing: as if the service were new; a mute holds."""
        members = {name: MemberWatch() for name in self.plan.members}
        self.state = WatchState(members=members, mute=self.state.mute, beneath=self.state.beneath)

    def open(self) -> None:
        self._out = []

    def close(self) -> list[WatchAction]:
        return self._out

    def order(self, action: WatchAction) -> None:
        self._out.append(action)

    def stand(self, standing: WatchStanding, now: datetime) -> None:
        if self.state.standing is not standing:
            self.state.standing, self.state.since = standing, now

    def is_muted(self, now: datetime) -> bool:
        mute = self.state.mute
        return mute is not None and now < mute.until

    def said_of(self, member: Member, sentence: str) -> str:
        """Which of several members it is about."""
        return sentence if len(self.plan.members) == 1 else f"{member}: {sentence}"
