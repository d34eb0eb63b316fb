"""What an operator is told to run on a host."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bot.errors import ConfigurationInvalid
from bot.host_setup import render_host_setup, rights_on, sudoers_lines
from config.loading import load_configuration

EXAMPLE = Path(__file__).parents[2] / "config" / "kimi.example.toml"


def test_the_sudoers_lines_are_the_rights_and_one_of_each() -> None:
    lines = sudoers_lines("kimi", ["a.service", "b.service"])
    assert len(lines) == 3 + 3 + 1
    assert lines[-1].endswith("/usr/bin/systemctl daemon-reload")
    rights = rights_on("b.service")
    assert list(rights) == ["start", "stop", "restart", "daemon-reload"]
    assert all(any(line.endswith(" ".join(words)) for line in lines) for words in rights.values())


def test_the_script_allows_exactly_what_the_bot_runs() -> None:
    script = render_host_setup(load_configuration(EXAMPLE), ["kimi-k2.5"])
    assert "kimi ALL=(root) NOPASSWD: /usr/bin/systemctl restart --no-block sglang-kimi.service" in script
    assert "kimi ALL=(root) NOPASSWD: /usr/bin/systemctl daemon-reload\n" in script
    allowed = [line for line in script.splitlines() if "NOPASSWD" in line and not line.startswith("#")]
    assert len(allowed) == 3 + 3 + 1, "those of every service there: the file is written whole"
    assert "# echo 'kimi ALL=(root) NOPASSWD: /usr/local/bin/py-spy ^dump --pid [0-9]+$'" in script
    assert "# systemctl set-property sglang-kimi.service IOAccounting=yes" in script
    assert 'restrict,port-forwarding,permitopen="127.0.0.1:30000",permitopen="127.0.0.1:30010"' in script
    assert "systemd-journal" in script
    assert "llm-three" not in script


def test_a_service_of_two_hosts_gets_a_part_for_each() -> None:
    script = render_host_setup(load_configuration(EXAMPLE), ["deepseek-r1"])
    assert "sglang-r1-node0.service" in script
    assert "sglang-r1-node1.service" in script


def test_a_host_without_sudo_is_told_what_it_takes() -> None:
    example = load_configuration(EXAMPLE)
    bare = example.hosts["llm-three"].model_copy(update={"sudo": False})
    without = example.model_copy(update={"hosts": example.hosts | {"llm-three": bare}})
    assert "hosts.llm-three.sudo is false" in render_host_setup(without, ["deepseek-r1"])


def test_a_service_that_is_none_is_named_with_those_that_are() -> None:
    with pytest.raises(ConfigurationInvalid, match=r"kimi-k3 is not .*; allowed: kimi-k2\.5, deepseek"):
        render_host_setup(load_configuration(EXAMPLE), ["kimi-k3"])


def test_what_is_special_in_sudoers_is_escaped() -> None:
    assert sudoers_lines("kimi", [r"a@b:c\x2d.service"])[0].endswith(r"a@b\:c\\x2d.service")


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell here")
def test_the_script_is_one_a_shell_reads() -> None:
    script = render_host_setup(load_configuration(EXAMPLE), ["kimi-k2.5", "deepseek-r1"])
    checked = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell here")
def test_run_again_it_leaves_one_line_of_the_key_and_without_the_key_it_changes_nothing(
    tmp_path: Path,
) -> None:
    script = render_host_setup(load_configuration(EXAMPLE), ["kimi-k2.5"])
    lines = script[script.index("keys=") : script.index("cat > /etc/sudoers.d")]
    part = lines.replace("~kimi/.ssh", str(tmp_path)).replace("chown kimi:", "true")
    keys = tmp_path / "authorized_keys"
    keys.write_text("ssh-rsa AAAB another\nrestrict ssh-ed25519 AAAC+/= kimi\n")
    for environ, status in (({}, 2), ({"KEY": "ssh-ed25519 AAAC+/= kimi"}, 0)) * 2:
        before = keys.read_text()
        path = {"PATH": os.environ["PATH"]}
        ran = subprocess.run(
            ["sh"], input=part, text=True, capture_output=True, check=False, env=path | environ
        )
        assert bool(ran.returncode) == bool(status), ran.stderr
        assert status == 0 or keys.read_text() == before
    other, own = keys.read_text().splitlines()
    assert other == "ssh-rsa AAAB another"
    assert own.startswith("restrict,port-forwarding,permitopen=")
    assert own.endswith(" ssh-ed25519 AAAC+/= kimi")
