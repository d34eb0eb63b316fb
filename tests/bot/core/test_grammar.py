"""The grammar: what is understood, what is refused, and what is suggested instead."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.command import Command, Word
from bot.core.events import HostName, ServiceName
from bot.core.grammar import MOST_LINES, Misunderstood, Parsed, parse_command

KIMI, QWEN = ServiceName("kimi-k2.5"), ServiceName("qwen3")
ONE, TWO = (KIMI,), (KIMI, QWEN)
HOST, TWO_HOURS = HostName("llm-two"), timedelta(hours=2)


def parse(
    text: str,
    services: tuple[ServiceName, ...] = ONE,
    *,
    default: ServiceName | None = None,
    here: ServiceName | None = None,
) -> Parsed:
    return parse_command(text, services=services, default=default, here=here)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("", Command(Word.STATUS, KIMI)),
        ("   ", Command(Word.STATUS, KIMI)),
        ("status", Command(Word.STATUS, KIMI)),
        ("STATUS Kimi-K2.5", Command(Word.STATUS, KIMI)),
        ("<@U0KIMI> status", Command(Word.STATUS, KIMI)),
        (" <@U0KIMI|kimi>: restart", Command(Word.RESTART, KIMI)),
        ("restart kimi-k2.5", Command(Word.RESTART, KIMI)),
        ("Restart kimi-k2.5 New Tool-Call parser", Command(Word.RESTART, KIMI, "New Tool-Call parser")),
        ("restart new tool-call parser", Command(Word.RESTART, KIMI, "new tool-call parser")),
        ('restart "tool-call parser"', Command(Word.RESTART, KIMI, "tool-call parser")),
        ("restart “wedged”", Command(Word.RESTART, KIMI, "wedged")),
        ("restart `kimi-k2.5` \u2018it\u2019s slow\u2019", Command(Word.RESTART, KIMI, "it's slow")),
        ("restart wedged", Command(Word.RESTART, KIMI, "wedged")),
        ("restart kimi-k2.5 a &lt;b&gt; &amp; c", Command(Word.RESTART, KIMI, "a <b> & c")),
        (
            "restart kimi-k2.5 asked by <@U0BOB|bob> in <#C0OPS|ops>, see <https://x.example|this>",
            Command(Word.RESTART, KIMI, "asked by @bob in #ops, see this"),
        ),
        ("stop kimi-k2.5.", Command(Word.STOP, KIMI)),
        ("start", Command(Word.START, KIMI)),
        ("watch", Command(Word.WATCH, KIMI)),
        ("unwatch kimi-k2.5", Command(Word.UNWATCH, KIMI)),
        ("logs", Command(Word.LOGS, KIMI)),
        ("logs 200", Command(Word.LOGS, KIMI, lines=200)),
        ("logs kimi-k2.5 200 lines", Command(Word.LOGS, KIMI, lines=200)),
        ("logs kimi-k2.5 10m", Command(Word.LOGS, KIMI, since=timedelta(minutes=10))),
        ("logs last 1h30m", Command(Word.LOGS, KIMI, since=timedelta(minutes=90))),
        ("logs 999999999", Command(Word.LOGS, KIMI, lines=MOST_LINES)),
        ("logs 0", Command(Word.LOGS, KIMI, lines=1)),
        ("help me please", Command(Word.HELP)),
        ("history", Command(Word.HISTORY, KIMI)),
        ("why kimi-k2.5?", Command(Word.WHY, KIMI)),
        ("incidents", Command(Word.INCIDENTS, KIMI)),
        ("incidents kimi-k2.5", Command(Word.INCIDENTS, KIMI)),
        ("incidents export 3F9A2C11", Command(Word.INCIDENTS, incident="3f9a2c11")),
        ("incidents export #3f9a2c11.", Command(Word.INCIDENTS, incident="3f9a2c11")),
        ("ack", Command(Word.ACK, KIMI)),
        ("ack kimi-k2.5", Command(Word.ACK, KIMI)),
        ("ack `3f9a2c11`", Command(Word.ACK, incident="3f9a2c11")),
        ("resolve 3f9a2c11", Command(Word.RESOLVE, incident="3f9a2c11")),
        ("mute 2h", Command(Word.MUTE, KIMI, lasting=timedelta(hours=2))),
        ("mute kimi-k2.5 2h", Command(Word.MUTE, KIMI, lasting=timedelta(hours=2))),
        ("mute 7d", Command(Word.MUTE, KIMI, lasting=timedelta(days=7))),
        ("mute for 1h30m new build", Command(Word.MUTE, KIMI, "new build", lasting=timedelta(minutes=90))),
        (
            "mute kimi-k2.5 for 30m “it's known”",
            Command(Word.MUTE, KIMI, "it's known", lasting=timedelta(minutes=30)),
        ),
        ("unmute", Command(Word.UNMUTE, KIMI)),
        ("?", Command(Word.HELP)),
        ("--help", Command(Word.HELP)),
        ("-h", Command(Word.HELP)),
    ],
)
def test_understood(text: str, command: Command) -> None:
    assert parse(text) == command


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("restrat kimi-k2.5", "Did you mean `restart`?"),
        ("log kimi-k2.5", "Did you mean `logs`?"),
        ("xyzzy", "I do not know `xyzzy`. `help` tells"),
        ("foo bar", "I do not know `foo`. `help` tells"),
        ("tail", "I cannot do `tail`. The nearest I can do is `logs`."),
        ("abort", "I cannot do `abort`. The nearest I can do is `stop`."),
        ("cancel", "The nearest I can do is `stop`."),
        ("aborts", "Did you mean `stop`?"),
        ("stat", "The nearest I can do is `status`."),
        ("reboot kimi-k2.5", "The nearest I can do is `restart`."),
        ("ps", "The nearest I can do is `status`."),
        ("explain", "The nearest I can do is `why`."),
        ("acknowlege", "Did you mean `ack`?"),
        ("incident", "Did you mean `incidents`?"),
        ("incidents export", "Which incident? `incidents` lists them"),
        ("incidents export seventeen", "Which incident is `seventeen`?"),
        ("mute", "For how long? Say a time of up to 7 days: `mute kimi-k2.5 2h reason`."),
        ("mute kimi-k2.5", "For how long?"),
        ("mute kimi-k2.5 known problem", "How long is `known`?"),
        ("mute kimi-k2.5 1000h", "How long is `1000h`?"),
        ("mute 0", "How long is `0`?"),
        ("mute -5m", "How long is `-5m`?"),
        ("mute 99999d", "How long is `99999d`?"),
        ("mute kimi 2h", "Did you mean `mute kimi-k2.5`?"),
        ("unmute kimi", "Did you mean `unmute kimi-k2.5`?"),
        ("histroy", "Did you mean `history`?"),
        ("why kimi-k25", "Did you mean `why kimi-k2.5`?"),
        ("unmutte", "Did you mean `unmute`?"),
        ("kimi-k2.5", "Say the verb first: `status kimi-k2.5`."),
        ("kimi-k2.5 restart", "Say the verb first: `restart kimi-k2.5`."),
        ("kimi-k2.5 tail", "Say the verb first: `logs kimi-k2.5`."),
        ("kimi-k2.5 please", "Say the verb first: `status kimi-k2.5`."),
        ("logs soon", "How much comes after it: `logs kimi-k2.5 200`, or `10m`."),
        ("restart kimi-k25", "Did you mean `restart kimi-k2.5`?"),
        ("restart kimi is slow", "Did you mean `restart kimi-k2.5`?"),
        ("restart deepseek-r1 new build", "There is no service `deepseek-r1`, only `kimi-k2.5`."),
        ("status kimmi-k2.5", "Did you mean `status kimi-k2.5`?"),
        ("status nonsense", "There is no service `nonsense`"),
        ("logs kimi 200", "Did you mean `logs kimi-k2.5`?"),
        ("logs kimi-k2.5 many", "How much is `many`?"),
        ("logs kimi-k2.5 10 20", "How much is `10 20`?"),
        ("logs 10x", "There is no service `10x`"),
        ("logs 10 20", "There is no service `10`"),
        ("logs 50 kimi-k25", "Did you mean `logs kimi-k2.5`?"),
        ("logs 50 kimi-k2.5 many", "How much is `50 many`?"),
    ],
)
def test_refused_with_the_nearest(text: str, hint: str) -> None:
    parsed = parse(text)
    assert isinstance(parsed, Misunderstood)
    assert hint in parsed.sentence


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("mute llm-two 2h disk swap", Command(Word.MUTE, None, "disk swap", lasting=TWO_HOURS, host=HOST)),
        ("mute LLM-Two for 2h", Command(Word.MUTE, None, lasting=TWO_HOURS, host=HOST)),
        ("unmute llm-two", Command(Word.UNMUTE, None, host=HOST)),
        ("mute kimi-k2.5 2h llm-two", Command(Word.MUTE, KIMI, "llm-two", lasting=TWO_HOURS)),
        ("mute 2h llm-two", Command(Word.MUTE, None, lasting=TWO_HOURS, host=HOST)),
        (
            "mute for 2h LLM-Two disk swap",
            Command(Word.MUTE, None, "disk swap", lasting=TWO_HOURS, host=HOST),
        ),
        ("mute 2h kimi-k2.5", Command(Word.MUTE, KIMI, lasting=TWO_HOURS)),
        ("mute 2h kimi-k2.5 llm-two", Command(Word.MUTE, KIMI, "llm-two", lasting=TWO_HOURS)),
        ("mute 2h disk of llm-two", Command(Word.MUTE, KIMI, "disk of llm-two", lasting=TWO_HOURS)),
        ('mute 2h "llm-twoo"', Command(Word.MUTE, KIMI, "llm-twoo", lasting=TWO_HOURS)),
    ],
)
def test_a_mute_may_name_a_host(text: str, command: Command) -> None:
    assert parse_command(text, services=ONE, default=None, here=None, hosts=(HOST,)) == command


def test_a_name_that_a_service_has_too_means_the_service() -> None:
    named = ServiceName("llm-two")
    parsed = parse_command("mute llm-two 2h", services=(KIMI, named), default=None, here=None, hosts=(HOST,))
    assert parsed == Command(Word.MUTE, named, lasting=TWO_HOURS)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("mute llm-twoo 2h", "There is no service or host `llm-twoo`. Did you mean `mute llm-two`?"),
        ("mute llm-two", "For how long? Say a time of up to 7 days: `mute llm-two 2h reason`."),
        ("mute 2h llm-twoo", "There is no service or host `llm-twoo`. Did you mean `mute llm-two`?"),
        ("mute nowhere 2h", "There is no service or host `nowhere`, only `kimi-k2.5`."),
        ("status llm-two", "`llm-two` is a host. Of hosts I know `mute` and `unmute` alone."),
        ("restart llm-two", "`llm-two` is a host."),
    ],
)
def test_of_a_host_nothing_else_is_understood(text: str, hint: str) -> None:
    parsed = parse_command(text, services=ONE, default=None, here=None, hosts=(HOST,))
    assert isinstance(parsed, Misunderstood)
    assert hint in parsed.sentence


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("logs 10m qwen3", Command(Word.LOGS, QWEN, since=timedelta(minutes=10))),
        ("logs 50 Qwen3", Command(Word.LOGS, QWEN, lines=50)),
        ("logs the last 50 lines of qwen3", Command(Word.LOGS, QWEN, lines=50)),
        ("mute 2h qwen3", Command(Word.MUTE, QWEN, lasting=TWO_HOURS)),
        ("mute for 2h qwen3 new build", Command(Word.MUTE, QWEN, "new build", lasting=TWO_HOURS)),
        ("mute qwen3 2h kimi-k2.5", Command(Word.MUTE, QWEN, "kimi-k2.5", lasting=TWO_HOURS)),
        ("mute 2h qwen3 kimi-k2.5", Command(Word.MUTE, QWEN, "kimi-k2.5", lasting=TWO_HOURS)),
        ("mute 2h for qwen3", Command(Word.MUTE, QWEN, lasting=TWO_HOURS)),
        ("mute for 2h on Qwen3", Command(Word.MUTE, QWEN, lasting=TWO_HOURS)),
        ("mute 1h 60m qwen3", Command(Word.MUTE, QWEN, lasting=TWO_HOURS)),
        ("mute qwen3 for 1h 60m swap", Command(Word.MUTE, QWEN, "swap", lasting=TWO_HOURS)),
        ("mute 2h 2h", Command(Word.MUTE, KIMI, "2h", lasting=TWO_HOURS)),
        ("mute 2h for upgrade", Command(Word.MUTE, KIMI, "for upgrade", lasting=TWO_HOURS)),
        ("mute 2h for qwen3 upgrade", Command(Word.MUTE, KIMI, "for qwen3 upgrade", lasting=TWO_HOURS)),
        ("mute 2h after qwen3", Command(Word.MUTE, KIMI, "after qwen3", lasting=TWO_HOURS)),
        ("mute 2h", Command(Word.MUTE, KIMI, lasting=TWO_HOURS)),
    ],
)
def test_a_name_right_after_the_amount_is_the_service(text: str, command: Command) -> None:
    assert parse(text, TWO, here=KIMI) == command


def test_one_that_may_not_be_named_here_is_no_reason_to_mute_another() -> None:
    parsed = parse_command("mute 2h qwen3", services=ONE, default=None, here=None, elsewhere=(QWEN,))
    assert parsed == Command(Word.MUTE, QWEN, lasting=TWO_HOURS)


def test_in_a_hosts_thread_a_mute_is_of_the_host() -> None:
    def here(text: str) -> Parsed:
        return parse_command(text, services=ONE, default=KIMI, here=None, hosts=(HOST,), host=HOST)

    assert here("mute 2h") == Command(Word.MUTE, None, lasting=TWO_HOURS, host=HOST)
    assert here("unmute") == Command(Word.UNMUTE, None, host=HOST)
    assert here("mute kimi-k2.5 2h") == Command(Word.MUTE, KIMI, lasting=TWO_HOURS)
    assert here("status") == Command(Word.STATUS, KIMI)


def test_a_left_out_service_is_the_threads_then_the_default() -> None:
    assert parse("restart", TWO, default=KIMI, here=QWEN) == Command(Word.RESTART, QWEN)
    assert parse("restart", TWO, default=KIMI) == Command(Word.RESTART, KIMI)
    assert parse("logs 5", TWO, here=QWEN) == Command(Word.LOGS, QWEN, lines=5)


def test_without_any_of_them_it_must_be_said() -> None:
    asked = parse("restart", TWO)
    assert asked == Misunderstood("Which service? `restart` `kimi-k2.5` or `qwen3`.")
    assert isinstance(parse("logs 200", TWO), Misunderstood)


def test_status_then_means_all() -> None:
    assert parse("", TWO) == Command(Word.STATUS)
    assert parse("status", TWO) == Command(Word.STATUS)


def test_one_word_that_is_no_service_restarts_nothing_where_several_could_be_meant() -> None:
    parsed = parse("restart deepseek", TWO, default=KIMI)
    assert isinstance(parsed, Misunderstood)
    assert "There is no service `deepseek`" in parsed.sentence
    assert "`restart kimi-k2.5 …`" in parsed.sentence


def test_a_default_that_may_not_be_named_here_does_not_count() -> None:
    assert parse("restart", (QWEN, ServiceName("glm")), default=KIMI) == Misunderstood(
        "Which service? `restart` `qwen3` or `glm`."
    )


def test_a_service_of_another_channel_is_understood_but_never_suggested() -> None:
    assert parse_command(
        "restart qwen3 why", services=ONE, default=None, here=None, elsewhere=[QWEN]
    ) == Command(Word.RESTART, QWEN, "why")
    for words in ("restart qwen4", "restart qwen down"):
        parsed = parse_command(words, services=ONE, default=None, here=None, elsewhere=[QWEN])
        assert isinstance(parsed, Misunderstood)
        assert "qwen3" not in parsed.sentence


def test_names_that_differ_in_case_alone_are_told_apart() -> None:
    both = (ServiceName("Kimi"), ServiceName("kimi"))
    assert parse("stop kimi", both) == Command(Word.STOP, ServiceName("kimi"))
    assert parse("stop Kimi", both) == Command(Word.STOP, ServiceName("Kimi"))
    assert isinstance(parse("stop KIMI", both), Misunderstood)


def test_a_reason_is_cut_at_its_limit() -> None:
    parsed = parse("restart kimi-k2.5 " + "x " * 500)
    assert isinstance(parsed, Command)
    assert len(parsed.reason) == 300


def test_nothing_may_be_named() -> None:
    assert parse("", ()) == Command(Word.STATUS)
    assert isinstance(parse("restart it", ()), Misunderstood)


def test_in_an_incidents_thread_it_may_be_left_out() -> None:
    def here(text: str) -> Parsed:
        return parse_command(text, services=TWO, default=None, here=None, incident="3f9a2c11")

    assert here("ack") == Command(Word.ACK, incident="3f9a2c11")
    assert here("resolve") == Command(Word.RESOLVE, incident="3f9a2c11")
    assert here("incidents export") == Command(Word.INCIDENTS, incident="3f9a2c11")
    assert here("incidents") == Command(Word.INCIDENTS)
    assert here("ack qwen3") == Command(Word.ACK, QWEN)
    assert here("ack 12345678") == Command(Word.ACK, incident="12345678")


def test_of_a_hosts_incident_the_id_is_enough_where_several_services_could_be_meant() -> None:
    assert parse("ack 3f9a2c11", TWO) == Command(Word.ACK, incident="3f9a2c11")
    assert isinstance(parse("ack", TWO), Misunderstood)
    assert parse("incidents", TWO) == Command(Word.INCIDENTS)


def test_a_service_whose_name_looks_like_an_id_is_the_service() -> None:
    deadbeef = ServiceName("deadbeef")
    assert parse("ack deadbeef", (deadbeef, QWEN)) == Command(Word.ACK, deadbeef)


words = st.sampled_from(
    [
        *Word,
        "why",
        "kimi-k2.5",
        "KIMI",
        "qwen3",
        "200",
        "10m",
        "<@U1>",
        "“",
        "`",
        "&lt;",
        "\x00",
        "…",
        "'",
        '"',
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.text(max_size=80), st.lists(words | st.text(max_size=8), max_size=6).map(" ".join)))
def test_any_text_is_answered(text: str) -> None:
    parsed = parse(text, TWO, default=KIMI)
    if isinstance(parsed, Command):
        all_of_them = parsed.verb in {Word.STATUS, Word.HELP, Word.INCIDENTS}
        assert parsed.service in {KIMI, QWEN} or all_of_them or parsed.incident is not None
        assert len(parsed.reason) <= 300
    else:
        assert 0 < len(parsed.sentence) < 400
