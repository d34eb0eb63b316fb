"""What a host tells of a unit's setup, and how unit files are read anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.core.events import UnitName
from bot.core.redact import Redactor
from bot.errors import PermissionRefused, UnitCommandFailed, UnitUnknown
from tests.support.ssh import Said, connect, serve

if TYPE_CHECKING:
    from pathlib import Path

UNIT = UnitName("sglang-kimi.service")
SHOWN = (
    "ExecStart={ path=/opt/x/bin/python ; argv[]=/opt/x/bin/python -m s --tp 8 --api-key hush-hush-4711 ; "
    "ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }\n"
    "Environment=A=1\nFragmentPath=/etc/systemd/system/x.service\nDropInPaths=\nNeedDaemonReload=yes\n"
)
PACKAGES = "/opt/x/lib/python3.11/site-packages/sglang-0.5.9.dist-info\n"


async def test_a_setup_is_masked_and_has_the_versions_beside_its_interpreter(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl show"] = Said(SHOWN)
        server.answers["cat /sys/module"] = Said("570.124.06\n", "cat: amdgpu: No such file\n", 1)
        server.answers["find /opt/x/lib"] = Said(PACKAGES)
        setup = await host.setup(UNIT, scope="system", redactor=Redactor())
    assert setup.command == ("/opt/x/bin/python", "-m", "s", "--tp", "8", "--api-key", "[masked]")
    assert setup.environment == {"A": "1"}
    assert setup.stale
    assert setup.versions == {"GPU driver": "570.124.06", "sglang": "0.5.9"}
    find = server.commands[-1]
    assert find[:5] == ["find", "/opt/x/lib", "-maxdepth", "3", "("]
    assert find[-1] == ")"
    assert "sglang-*.dist-info" in find


async def test_what_a_host_does_not_tell_is_done_without(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl show"] = Said(SHOWN.replace("/opt/x/bin/", "./"))
        setup = await host.setup(UNIT, scope="system", redactor=Redactor())
        assert setup.versions == {}
        assert not any(words[0] == "find" for words in server.commands)


async def test_a_unit_that_is_none_is_an_error(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        with pytest.raises(UnitUnknown):
            await host.setup(UnitName("-rf.service"), scope="system", redactor=Redactor())
        server.answers["systemctl show"] = Said(err="Failed to connect to bus", status=1)
        with pytest.raises(UnitCommandFailed):
            await host.setup(UNIT, scope="system", redactor=Redactor())


async def test_units_are_reloaded_with_the_rights_the_order_needs(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["sudo"] = server.answers["systemctl"] = Said()
        await host.reload(scope="system")
        await host.reload(scope="user")
        assert server.commands == [
            ["sudo", "-n", "systemctl", "daemon-reload"],
            ["systemctl", "--user", "daemon-reload"],
        ]
        server.answers["sudo"] = Said(err="sudo: a password is required\n", status=1)
        with pytest.raises(PermissionRefused, match="host-setup"):
            await host.reload(scope="system")
        server.answers["systemctl"] = Said(err="Failed to reload daemon: Connection timed out\n", status=1)
        with pytest.raises(UnitCommandFailed, match="daemon-reload gave an error: Failed to reload daemon"):
            await host.reload(scope="user")
