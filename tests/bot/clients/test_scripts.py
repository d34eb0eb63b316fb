"""The scripts: each may run twice, and touches what it was handed and nothing else."""

from __future__ import annotations

from bot.clients import scripts


def test_every_thread_script_names_the_parts_in_order() -> None:
    names = (
        "PUSH",
        "MAIL",
        "REBUILD",
        "DROP",
        "CLAIM",
        "RENEW",
        "LET_GO",
        "ATTEMPT",
        "ACCEPT",
        "PARK",
        "EDITED",
        "ANEW",
    )
    first = f"local {', '.join(scripts.THREAD_PARTS)} = unpack(KEYS)"
    for name in names:
        assert getattr(scripts, name).startswith(first), name


def test_every_write_of_a_sender_checks_its_lease() -> None:
    for name in ("RENEW", "LET_GO", "ATTEMPT", "ACCEPT", "PARK", "EDITED", "ANEW"):
        assert "redis.call('GET', sender) ~= ARGV[1]" in getattr(scripts, name), name


def test_every_write_of_an_operation_checks_its_fencing_number() -> None:
    for name in ("PUSH", "REBUILD"):
        script = getattr(scripts, name)
        check = script.index("return 'lost'")
        assert (
            script.index("redis.call('GET', fence)") < check < script.index("redis.call('SET', operation")
        ), name
