"""Private answers: status, help, refusals, questions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings

from bot.core.access import Denial, Denied
from bot.core.answers import (
    REDIS_GONE,
    REDIS_GONE_FOR_NOW,
    render_begun,
    render_busy,
    render_confirmation,
    render_help,
    render_home,
    render_late,
    render_logs_coming,
    render_logs_root,
    render_question,
    render_refusal,
    render_sentence,
    render_slow,
    render_started,
)
from bot.core.command import Word
from bot.core.events import ChannelId, HostName, OperationId, ServiceName, UserId, Verb
from bot.core.request import (
    Busy,
    Held,
    NeedsConfirmation,
    Outage,
    Request,
    Started,
)
from bot.core.words import Searched
from bot.practice.slack_blocks import HOME, check_blocks
from bot.practice.slack_limits import check_view
from tests.support.slack_messages import assert_sendable, button_values, labels, shown
from tests.support.startup_views import hostile, names, seconds

if TYPE_CHECKING:
    from bot.core.blocks import Message

quick = settings(max_examples=100, deadline=None)
KIMI, QWEN = ServiceName("kimi-k2.5"), ServiceName("qwen3")
REQUEST = Request(KIMI, Verb.RESTART, UserId("U0BOB"), "new <parser>", ChannelId("C0OPS"))
HELD = Held(
    OperationId("op1"),
    KIMI,
    Verb.RESTART,
    UserId("U0ALICE"),
    seconds(120),
    "weights 12/64",
    "https://slack.example/p1",
)


def words_of(message: Message) -> str:
    return f"{shown(message)}\n{message.text}"


def test_help_offers_only_what_this_person_may_do() -> None:
    looking = render_help(services=[KIMI], operated=[])
    operating = render_help(services=[KIMI, QWEN], operated=[KIMI])
    assert (
        looking.text
        == "You may say here: status, watch, unwatch, logs, history, why, incidents, ack and help."
    )
    assert "`restart" not in shown(looking)
    assert "As an operator, for `kimi-k2.5`:\n`restart [service] [reason]`" in shown(operating)
    for message in (looking, operating):
        assert_sendable(message)
        assert not any(word in words_of(message) for word in Searched)
    assert "`mute" not in shown(looking)
    assert "`mute [service | host] 2h [reason]`" in shown(operating)


def test_a_refusal_says_who_may() -> None:
    denied = Denied(Denial.OPERATOR, Word.RESTART, KIMI, (UserId("U0ALICE"), UserId("U0BOB")), ("S0ONCALL",))
    assert render_refusal(denied).text == (
        "You can look but not restart `kimi-k2.5`: <@U0ALICE>, <@U0BOB> or <!subteam^S0ONCALL> may. "
        "Ask one of them here. Nothing was done."
    )


def test_a_refusal_about_an_incident_that_was_named_by_its_id() -> None:
    told = render_refusal(Denied(Denial.OPERATOR, Word.RESOLVE, None)).text
    assert told.startswith("You can look but not close the incident: nobody is named")


def test_a_refusal_where_nobody_may() -> None:
    told = render_refusal(Denied(Denial.OPERATOR, Word.UNWATCH, KIMI)).text
    assert told.startswith("You can look but not steer the watch of `kimi-k2.5`: nobody is named")


def test_a_refusal_of_a_channel_says_where_to_ask() -> None:
    denied = Denied(Denial.CHANNEL, Word.STATUS, channels=(ChannelId("C0OPS"),))
    assert render_refusal(denied).text == (
        "I do not listen in this channel. Ask in <#C0OPS>. Nothing was done."
    )


def test_busy_says_who_since_when_and_where() -> None:
    message = render_busy(REQUEST, Busy(HELD), may_override=True)
    assert_sendable(message)
    assert message.text == (
        "`kimi-k2.5` is already being restarted by <@U0ALICE>, 2m ago, weights 12/64: "
        "<https://slack.example/p1|see its thread>. Nothing was done."
    )
    assert labels(message) == ["Restart anyway"]
    watched = render_busy(REQUEST, Busy(replace(HELD, verb=Verb.WATCH)), may_override=True).text
    assert "is already being watched by <@U0ALICE>, for 2m so far, weights 12/64: " in watched
    assert button_values(message)["kimi:confirm"] == {
        "o": "op1",
        "s": KIMI,
        "v": "restart",
        "r": "new <parser>",
    }
    assert labels(render_busy(REQUEST, Busy(HELD), may_override=False)) == []


def test_a_confirmation_carries_the_request() -> None:
    message = render_confirmation(REQUEST, NeedsConfirmation("It answers requests at present."))
    assert_sendable(message)
    told = "Restart `kimi-k2.5`? It answers requests at present."
    assert message.text == f"{told} The reason will be: “new &lt;parser&gt;”."
    silent = replace(REQUEST, reason="")
    assert render_confirmation(silent, NeedsConfirmation("It answers requests at present.")).text == told
    assert labels(message) == ["Restart", "Cancel"]
    assert button_values(message)["kimi:confirm"] == {
        "s": KIMI,
        "v": "restart",
        "r": "new <parser>",
    }


def test_a_silent_host_is_told_with_what_is_not_done_yet_and_with_its_outage() -> None:
    one, both = (HostName("gpu-<3>"),), (HostName("gpu-3"), HostName("gpu-4"))
    message = render_slow(Word.RESTART, KIMI, one, 4.0, outage=None)
    assert_sendable(message)
    assert message.text == (
        "gpu-&lt;3&gt; has not answered for 4s; still trying. No restart of `kimi-k2.5` has begun yet; "
        "what comes of it is told here: no need to ask again."
    )
    outage = Outage("3f9a2c11", "gpu-3 cannot be reached", age=seconds(600))
    message = render_slow(Word.LOGS, KIMI, both, 4.0, outage=outage)
    assert_sendable(message)
    told, more = message.text.split("\n")
    assert told == (
        "gpu-3 and gpu-4 have not answered for 4s; still trying. What comes of it is told here: "
        "no need to ask again."
    )
    assert "gpu-3 cannot be reached" in more


def test_started_leads_to_the_thread() -> None:
    told = render_started(REQUEST, Started(OperationId("op1")), channel="C0OPS").text
    assert told == "Restarting `kimi-k2.5`: see its thread in <#C0OPS>."
    watch = Request(KIMI, Verb.WATCH, UserId("U0BOB"))
    linked = render_started(watch, Started(OperationId("op1"), "https://slack.example/p1"), channel="C0OPS")
    assert linked.text == "Following `kimi-k2.5`: see <https://slack.example/p1|its thread> in <#C0OPS>."


def test_logs_are_announced() -> None:
    assert render_logs_coming(KIMI, "the last 200 lines").text == (
        "Fetching the last 200 lines of `kimi-k2.5`; the file comes here."
    )


def test_a_log_outside_a_thread_has_a_line_to_hang_under() -> None:
    told = render_logs_root(KIMI, UserId("U0BOB"))
    assert told.text == "Log of `kimi-k2.5`, asked for by <@U0BOB>:"
    assert check_blocks(list(told.blocks)) == []


def test_home_lists_services_with_a_button_each() -> None:
    blocks = render_home([(KIMI, "healthy <b>"), (QWEN, "stopped")], channels=[ChannelId("C0OPS")])
    assert check_blocks(list(blocks), surface=HOME) == []
    assert [block["type"] for block in blocks] == ["section", "section", "actions", "section", "actions"]
    assert "&lt;b&gt;" in blocks[1]["text"]["text"]


def test_home_offers_nothing_while_redis_is_away() -> None:
    blocks = render_home([(KIMI, ""), (QWEN, "")], channels=[ChannelId("C0OPS")], deaf=True)
    assert check_blocks(list(blocks), surface=HOME) == []
    assert [block["type"] for block in blocks] == ["section"] * 4
    assert blocks[1]["text"]["text"].startswith("Redis does not answer: at present nothing can be restarted")


def test_what_came_too_late_says_whether_it_was_done() -> None:
    never = render_late("restart kimi-k2.5", seconds(125), certain=True)
    assert_sendable(never)
    assert never.text == (
        "kimi was down or cut off when you asked for `restart kimi-k2.5`, 2m05s ago: it never began, and "
        "nothing was done. Ask again if it is still wanted."
    )
    perhaps = render_late("unwatch kimi-k2.5", seconds(125), certain=False)
    assert "whether it was done is not certain" in perhaps.text
    assert "nothing was done" not in perhaps.text


def test_what_had_begun_leads_to_its_thread() -> None:
    told = render_begun("restart kimi-k2.5", "https://slack.example/p1")
    assert_sendable(told)
    assert "`restart kimi-k2.5` had begun by then: see <https://slack.example/p1|its thread>." in told.text
    assert render_begun("stop kimi-k2.5", None).text.endswith("see its thread.")


def test_a_redis_that_is_away_is_told_as_it_is() -> None:
    assert "nothing was done." in REDIS_GONE
    assert "nothing was done yet" in REDIS_GONE_FOR_NOW


def test_the_question_is_a_modal_slack_takes() -> None:
    check_view(render_question(KIMI), kind="modal")


@quick
@given(names, hostile, hostile)
def test_any_question_and_refusal_is_sendable(service: str, reason: str, why: str) -> None:
    name = ServiceName(service)
    request = Request(name, Verb.STOP, UserId("U0BOB"), reason)
    held = Held(OperationId("op"), name, Verb.STOP, UserId(why), seconds(1), why, why)
    denied = Denied(
        Denial.OPERATOR, Word.STOP, name, (UserId(why),) * 30, (why,) * 30, (ChannelId(why),) * 30
    )
    for message in (
        render_sentence(why),
        render_busy(request, Busy(held), may_override=True),
        render_confirmation(request, NeedsConfirmation(why)),
        render_refusal(denied),
        render_help(services=[name] * 40, operated=[name] * 30),
    ):
        assert_sendable(message)
