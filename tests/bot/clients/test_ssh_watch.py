"""Many units with one command, and one stream for all that is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.clients import ssh_watch
from bot.core.events import HostName, UnitName
from bot.errors import HostError, HostUnreachable, UnitUnknown
from tests.support.ssh import Said, connect, serve

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = UnitName("one.service"), UnitName("two.service")
SHOWN = "LoadState=loaded\nActiveState=active\nNRestarts=3\n\nLoadState=not-found\nActiveState=inactive\n"
JSON = ("journalctl", "--no-pager", "-o", "json", "--all")


def test_each_unit_has_a_block_in_the_order_in_which_they_were_named() -> None:
    shown = ssh_watch.parse_shown(SHOWN, [ONE, TWO])
    assert (shown[ONE].active, shown[ONE].restarts) == ("active", 3)
    assert (shown[TWO].load, shown[TWO].active) == ("not-found", "inactive")


def test_another_number_of_blocks_is_no_answer() -> None:
    with pytest.raises(ValueError, match="2 units where 1 were asked for"):
        ssh_watch.parse_shown(SHOWN, [ONE])


async def test_one_command_asks_for_all(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl"] = Said(SHOWN)
        shown = await host.show_all([ONE, TWO], scope="system")
        assert set(shown) == {ONE, TWO}
        [command] = server.commands
        assert command[:4] == ["systemctl", "show", ONE, TWO]
        server.answers["systemctl"] = Said("LoadState=loaded\n")
        with pytest.raises(HostError, match="tells of 1 units"):
            await host.show_all([ONE, TWO], scope="system")
        with pytest.raises(UnitUnknown):
            await host.show_all([ONE, UnitName("x;reboot.service")], scope="system")


def test_what_systemd_says_from_now_on() -> None:
    assert ssh_watch.unit_arguments([ONE, TWO], scope="system")[6:] == (
        "-f",
        "-n",
        "0",
        "_PID=1",
        f"UNIT={ONE}",
        f"UNIT={TWO}",
    )
    assert ssh_watch.unit_arguments([ONE], scope="user")[9:] == (f"USER_UNIT={ONE}",)


def test_with_it_what_the_units_and_the_kernel_say_where_the_pattern_matches() -> None:
    words = ssh_watch.telling_arguments([ONE], scope="system", pattern="Xid|died")
    assert words[:5] == JSON
    assert words[6:] == (
        "-f",
        "-n",
        "0",
        "--grep=Xid|died",
        "_PID=1",
        f"UNIT={ONE}",
        "+",
        f"_SYSTEMD_UNIT={ONE}",
        "+",
        "_TRANSPORT=kernel",
    )
    users = ssh_watch.telling_arguments([ONE], scope="user", pattern="Xid")
    assert users[10:] == (f"USER_UNIT={ONE}", "+", f"_SYSTEMD_USER_UNIT={ONE}", "+", "_TRANSPORT=kernel")


def test_a_journalctl_that_cannot_search_says_so() -> None:
    complaint = "llm-two: journalctl ended: Compiled without pattern matching support."
    assert ssh_watch.lacks_patterns(HostUnreachable(HostName("llm-two"), complaint))
    assert not ssh_watch.lacks_patterns(HostUnreachable(HostName("llm-two"), "connection lost"))
