"""Tests of what counts as a change between two starts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.changes import Change, Kind, LastHealthy, compare, compare_all, spell_change
from bot.core.events import Member
from bot.core.setup import Setup

ONE, TWO = Member("a/x.service"), Member("b/x.service")


def command(text: str) -> Setup:
    return Setup(command=tuple(f"/opt/bin/python -m sglang.launch_server {text}".split()))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("--tp 8 --port 1", "--tp 8 --port 1 --tool-call-parser kimi_k2", ["+ --tool-call-parser kimi_k2"]),
        ("--tp 8 --enable-metrics", "--tp 8", ["- --enable-metrics"]),
        ("--mem-fraction-static 0.85", "--mem-fraction-static 0.82", ["--mem-fraction-static 0.85 → 0.82"]),
        ("--tp 8 --port 1", "--port 1 --tp 8", []),
        ("--tp-size 8", "--tp_size 8", []),
        ("--tp-size 8", "--tp_size=8", []),
        ("--tp-size 8", "--tp_size=4", ["--tp_size 8 → 4"]),
        ("--port 30000", "--port 30001", ["--port 30000 → 30001"]),
        ("--switch", "--switch on", ["--switch (nothing) → on"]),
        ("--bs 1 2 4", "--bs 1 2 8", ["--bs 1 2 4 → 1 2 8"]),
        ("--a x --a y", "--a x y", []),
        ("--offset -1", "--offset -2", ["--offset -1 → -2"]),
    ],
)
def test_flags_are_compared_as_flags(before: str, after: str, told: list[str]) -> None:
    assert [spell_change(each) for each in compare(command(before), command(after))] == told


def test_another_program_is_told() -> None:
    before, after = Setup(command=("/a/vllm", "serve", "m")), Setup(command=("/b/vllm", "serve", "m"))
    assert [spell_change(each) for each in compare(before, after)] == [
        "command /a/vllm serve m → /b/vllm serve m"
    ]


def test_environment_files_and_versions() -> None:
    before = Setup(
        environment={"A": "1", "B": "2", "GONE": "x"}, files=("/u", "/d/old"), versions={"sglang": "0.5.9"}
    )
    after = Setup(
        environment={"B": "3", "A": "1", "NEW": ""},
        files=("/u", "/d/new"),
        versions={"sglang": "0.5.12", "torch": "2.8"},
    )
    assert [spell_change(each) for each in compare(before, after)] == [
        "B=2 → 3", "+ NEW", "- GONE=x", "+ /d/new", "- /d/old", "sglang 0.5.9 → 0.5.12"
    ]  # fmt: skip


def test_what_one_does_not_know_is_not_compared() -> None:
    full = Setup(("a", "--b"), {"A": "1"}, ("/u",), arguments={"x": "1"}, versions={"torch": "2"})
    assert compare(Setup(), full) == ()
    assert compare(full, Setup()) == ()
    assert compare(full, Setup(arguments={"x": "2"}, whole=False)) == ()


@pytest.mark.parametrize(
    "name",
    [
        "port",
        "nccl_port",
        "random_seed",
        "seed",
        "pid",
        "disaggregation_bootstrap_port",
        "tokenizer_ipc_name",
    ],
)
def test_what_every_start_has_anew_is_no_change(name: str) -> None:
    assert compare(Setup(arguments={name: "1"}), Setup(arguments={name: "2"})) == ()


@pytest.mark.parametrize("name", ["tool_call_parser", "supported", "seedling", "attention_backend"])
def test_other_arguments_are(name: str) -> None:
    (change,) = compare(Setup(arguments={name: "1"}), Setup(arguments={name: "2"}))
    assert change == Change(Kind.ARGUMENT, name, "1", "2")


def test_of_an_address_the_host_counts_alone() -> None:
    def at(value: str) -> Setup:
        return Setup(arguments={"dist_init_addr": value})

    assert compare(at("10.0.0.1:20000"), at("10.0.0.1:41113")) == ()
    assert len(compare(at("10.0.0.1:20000"), at("10.0.0.2:20000"))) == 1


def test_a_whole_list_gains_names_with_the_version_and_a_short_one_by_hand() -> None:
    assert compare(Setup(arguments={"a": "1"}), Setup(arguments={"a": "1", "b": "2"})) == ()
    short = compare(Setup(arguments={"a": "1"}, whole=False), Setup(arguments={"b": "2"}, whole=False))
    assert [spell_change(each) for each in short] == ["+ b 2", "- a 1"]


def test_a_flag_is_not_told_again_as_what_the_engine_calls_it() -> None:
    before = Setup(("x", "--tp", "8"), arguments={"tp_size": "8", "tool_call_parser": "None", "bs": "1"})
    after = Setup(
        ("x", "--tp", "4", "--tool-call-parser", "k"),
        arguments={"tp_size": "4", "tool_call_parser": "k", "bs": "2"},
    )
    assert [spell_change(each) for each in compare(before, after)] == [
        "--tp 8 → 4", "+ --tool-call-parser k", "bs 1 → 2"
    ]  # fmt: skip


def test_of_several_members_the_odd_one_is_named() -> None:
    old, new = command("--tp 8"), command("--tp 4")
    assert [spell_change(c) for c in compare_all({ONE: old, TWO: old}, {ONE: new, TWO: new})] == [
        "--tp 8 → 4"
    ]
    assert [spell_change(c) for c in compare_all({ONE: old, TWO: old}, {ONE: old, TWO: new})] == [
        "--tp 8 → 4 (b/x.service)"
    ]
    assert compare_all({ONE: old}, {TWO: new}) == ()


def test_long_values_are_told_short() -> None:
    (change,) = compare(command(f"--a {'x' * 200}1"), command(f"--a {'x' * 200}2"))
    assert spell_change(change) == "--a changed"


FLAGS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9]{0,5}([-_][a-z]{1,4})?", fullmatch=True),
    st.sampled_from(["", "1", "0.85", "kimi_k2", "a b"]),
    max_size=6,
)


@settings(max_examples=80, deadline=None)
@given(FLAGS, st.randoms(use_true_random=False), st.booleans())
def test_how_flags_are_written_changes_nothing(flags: dict[str, str], random: object, joined: bool) -> None:
    plain = {name.replace("-", "_"): value for name, value in flags.items()}
    order = list(plain)
    random.shuffle(order)  # type: ignore[attr-defined]
    glue = "=" if joined else " "
    one = " ".join(f"--{name}{f' {value}' if value else ''}" for name, value in plain.items())
    other = " ".join(
        f"--{name.replace('_', '-')}{f'{glue}{plain[name]}' if plain[name] else ''}" for name in order
    )
    assert compare(command(one), command(other)) == ()


@settings(max_examples=80, deadline=None)
@given(FLAGS, FLAGS)
def test_a_change_there_is_one_back(before: dict[str, str], after: dict[str, str]) -> None:
    def write(flags: dict[str, str]) -> Setup:
        return command(" ".join(f"--{name} {value}" for name, value in flags.items()))

    there, back = compare(write(before), write(after)), compare(write(after), write(before))
    assert {(c.before, c.after) for c in there} == {(c.after, c.before) for c in back}
    assert all(c.before != c.after for c in there)


def test_the_last_healthy_start_is_plain_data() -> None:
    kept = TypeAdapter(LastHealthy)
    last = LastHealthy(datetime(2026, 5, 28, 18, 2, tzinfo=UTC), {ONE: command("--tp 8")})
    assert kept.validate_json(kept.dump_json(last)) == last
