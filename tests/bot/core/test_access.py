"""Who may do what, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.core.access import (
    Asking,
    Denial,
    Denied,
    heard_channels,
    is_operator,
    judge,
    named_groups,
    visible_services,
)
from bot.core.command import Word
from bot.core.events import ChannelId, ServiceName, UserId
from tests.support.configurations import (
    ALICE,
    BOB,
    CAROL,
    ELSEWHERE,
    LAB,
    MALLORY,
    NIGHT,
    ONCALL,
    OPS,
    configure,
)

if TYPE_CHECKING:
    from config.services import Configuration

KIMI = ServiceName("kimi")
GROUPS = {ONCALL: frozenset({UserId(BOB), UserId(CAROL)}), NIGHT: frozenset({UserId(CAROL)})}
CHANGES = (Word.RESTART, Word.START, Word.STOP, Word.MUTE, Word.UNMUTE, Word.RESOLVE)
LOOKS = (Word.STATUS, Word.WATCH, Word.LOGS, Word.INCIDENTS, Word.ACK, Word.HELP)


def ask(
    configuration: Configuration,
    user: str,
    verb: Word,
    *,
    channel: str | None = OPS,
    service: str | None = "kimi",
    starter: str | None = None,
) -> Denied | None:
    asking = Asking(
        UserId(user),
        ChannelId(channel) if channel else None,
        verb,
        ServiceName(service) if service else None,
        GROUPS,
        UserId(starter) if starter else None,
    )
    return judge(configuration, asking)


@pytest.mark.parametrize("verb", LOOKS)
def test_everyone_in_a_heard_channel_may_look(verb: Word) -> None:
    assert ask(configure("kimi"), MALLORY, verb) is None


@pytest.mark.parametrize("verb", [*CHANGES, Word.UNWATCH])
def test_only_operators_may_touch(verb: Word) -> None:
    configuration = configure("kimi")
    assert ask(configuration, ALICE, verb) is None
    assert ask(configuration, BOB, verb) is None  # through the group
    assert ask(configuration, MALLORY, verb) == Denied(
        Denial.OPERATOR, verb, KIMI, (UserId(ALICE),), (ONCALL,)
    )


@pytest.mark.parametrize("verb", [*CHANGES, *LOOKS, Word.UNWATCH])
def test_nothing_is_heard_elsewhere(verb: Word) -> None:
    denied = ask(configure("kimi"), ALICE, verb, channel=ELSEWHERE)
    assert denied is not None
    assert (denied.why, denied.channels) == (Denial.CHANNEL, (OPS,))
    assert not denied.people


def test_nobody_is_an_operator_by_default() -> None:
    denied = ask(configure("kimi", operators=()), ALICE, Word.RESTART)
    assert denied == Denied(Denial.OPERATOR, Word.RESTART, KIMI)


def test_a_services_own_list_narrows_and_never_widens() -> None:
    configuration = configure("kimi", kimi={"operators": [BOB, MALLORY]})
    assert ask(configuration, BOB, Word.RESTART) is None
    assert ask(configuration, ALICE, Word.RESTART) == Denied(
        Denial.OPERATOR, Word.RESTART, KIMI, (UserId(BOB),)
    )
    assert ask(configuration, MALLORY, Word.RESTART) is not None


@pytest.mark.parametrize("verb", [Word.RESOLVE, Word.MUTE])
def test_what_is_about_a_host_is_for_the_operators_of_all(verb: Word) -> None:
    configuration = configure("kimi", kimi={"operators": [BOB]})
    assert ask(configuration, ALICE, verb, service=None) is None
    denied = ask(configuration, MALLORY, verb, service=None)
    assert denied is not None
    assert denied.why is Denial.OPERATOR
    assert UserId(ALICE) in denied.people
    assert denied.groups
    assert ask(configuration, MALLORY, Word.ACK, service=None) is None


def test_an_empty_own_list_lets_nobody() -> None:
    configuration = configure("kimi", kimi={"operators": []})
    assert ask(configuration, ALICE, Word.STOP) == Denied(Denial.OPERATOR, Word.STOP, KIMI)


def test_a_group_of_the_service_that_is_no_operator_is_told_by_its_people() -> None:
    configuration = configure("kimi", kimi={"operators": [NIGHT]})
    assert ask(configuration, CAROL, Word.RESTART) is None
    denied = ask(configuration, BOB, Word.RESTART)
    assert denied is not None
    assert (denied.people, denied.groups) == ((UserId(CAROL),), ())


def test_who_started_it_may_stop_following_but_nothing_more() -> None:
    configuration = configure("kimi")
    assert ask(configuration, MALLORY, Word.UNWATCH, starter=MALLORY) is None
    assert ask(configuration, MALLORY, Word.STOP, starter=MALLORY) is not None
    denied = ask(configuration, BOB, Word.UNWATCH, starter=ALICE)
    assert denied is None
    denied = ask(configuration, MALLORY, Word.UNWATCH, starter="U0DAVE")
    assert denied is not None
    assert denied.people == (UserId("U0DAVE"), UserId(ALICE))


def test_a_services_own_channel_speaks_of_that_service_alone() -> None:
    configuration = configure("kimi", "qwen", kimi={"channel": LAB})
    assert visible_services(configuration, ChannelId(LAB)) == (KIMI,)
    assert visible_services(configuration, ChannelId(OPS)) == (KIMI, ServiceName("qwen"))
    assert visible_services(configuration, ChannelId(ELSEWHERE)) == ()
    assert ask(configuration, ALICE, Word.RESTART, channel=LAB) is None
    assert ask(configuration, ALICE, Word.RESTART, channel=LAB, service="qwen") is not None
    assert ask(configuration, ALICE, Word.HELP, channel=LAB, service=None) is None
    assert heard_channels(configuration) == (OPS, LAB)


def test_the_home_tab_has_no_channel_but_its_operators() -> None:
    assert ask(configure("kimi"), ALICE, Word.RESTART, channel=None) is None
    assert ask(configure("kimi"), MALLORY, Word.RESTART, channel=None) is not None


def test_a_group_that_is_not_known_lets_nobody_in() -> None:
    assert not is_operator(configure("kimi"), UserId(BOB), KIMI, {})


def test_the_groups_to_ask_slack_about() -> None:
    configuration = configure("kimi", "qwen", kimi={"operators": [NIGHT, BOB]})
    assert named_groups(configuration, KIMI) == (ONCALL, NIGHT)
    assert named_groups(configuration, ServiceName("qwen")) == (ONCALL,)
    assert named_groups(configuration, None) == (ONCALL, NIGHT)
