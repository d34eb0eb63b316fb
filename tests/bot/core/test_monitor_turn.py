"""The members a watch knows are those of its plan."""

from __future__ import annotations

from bot.core.events import Member
from bot.core.monitor_state import MemberWatch, Mute, WatchStanding, WatchState
from bot.core.monitor_turn import WatchTurn
from config.engine_file import load_engine
from tests.support.watches import BEGAN, MEMBER, make_plan

OTHER = Member("llm-three/kimi.service")


def test_members_that_were_configured_away_are_forgotten() -> None:
    state = WatchState(members={OTHER: MemberWatch()})
    WatchTurn(make_plan(), load_engine("sglang"), state)
    assert list(state.members) == [MEMBER]


def test_begun_anew_it_knows_what_is_configured_and_what_people_said() -> None:
    mute = Mute(BEGAN)
    state = WatchState(standing=WatchStanding.DOWN, served=True, mute=mute)
    turn = WatchTurn(make_plan(), load_engine("sglang"), state)
    turn.begin_anew()
    assert turn.state == WatchState(members={MEMBER: MemberWatch()}, mute=mute)


def test_which_member_is_said_only_where_there_are_several() -> None:
    alone = WatchTurn(make_plan(), load_engine("sglang"), WatchState())
    assert alone.said_of(MEMBER, "process ended") == "process ended"
    both = WatchTurn(make_plan(members=(MEMBER, OTHER)), load_engine("sglang"), WatchState())
    assert both.said_of(OTHER, "process ended") == "llm-three/kimi.service: process ended"
