"""What is shipped to run the bot: the image, the compose file and the unit, read as those who run them do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from bot.run import STOP_WITHIN
from config.fields import parse_address, parse_duration
from config.services import HealthSection
from tests.support.twins import ROOT

if TYPE_CHECKING:
    from pathlib import Path

UNIT = ROOT / "deploy" / "kimi-bot.service"
PORT = parse_address(HealthSection().listen)[1]


def read_dockerfile() -> list[tuple[str, str]]:
    """Instructions of the last stage, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    instructions = [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line.strip()]
    last = max(at for at, (name, _) in enumerate(instructions) if name == "FROM")
    return instructions[last:]


def read_compose() -> dict[str, Any]:
    """The little of YAML that the file uses: mappings, lists of words, JSON in a line; fails at more."""
    lines = [re.sub(r"\s+#.*$", "", line) for line in (ROOT / "docker-compose.yml").read_text().splitlines()]
    left = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    found = _read_block(left, 0)
    assert left == []
    assert isinstance(found, dict)
    return found


def _read_block(left: list[str], indent: int) -> Any:
    if left[0].lstrip().startswith("- "):
        items: list[str] = []
        while left and left[0].startswith(" " * indent + "- "):
            items.append(left.pop(0).strip()[2:])
        return items
    block: dict[str, Any] = {}
    while left and len(left[0]) - len(left[0].lstrip()) == indent:
        match = re.fullmatch(r"([\w.-]+):(?: (.+))?", left.pop(0).strip())
        assert match is not None
        name, value = match.groups()
        deeper = len(left[0]) - len(left[0].lstrip()) if left else 0
        if value is None and deeper > indent:
            block[name] = _read_block(left, deeper)
        else:
            block[name] = _read_value(value)
    return block


def _read_value(text: str | None) -> Any:
    if text is not None and text.startswith("["):
        return json.loads(re.sub(r"\[(\w+)\]", r'["\1"]', text))
    return {"true": True, "false": False, None: None}.get(text, text)


def read_unit() -> dict[str, list[str]]:
    """The `[Service]` section; a key that stands several times has several values."""
    values: dict[str, list[str]] = {}
    section = UNIT.read_text().split("[Service]")[1].split("[Install]")[0]
    for line in section.splitlines():
        if line and not line.startswith("#"):
            name, value = line.split("=", 1)
            values.setdefault(name, []).append(value)
    return values


def test_the_image_runs_the_bot_as_a_user_without_rights() -> None:
    instructions = read_dockerfile()
    last = dict(instructions)
    assert last["USER"] == "kimi"
    assert json.loads(last["ENTRYPOINT"]) == ["kimi-bot"]
    assert json.loads(last["CMD"]) == ["run"]
    assert last["STOPSIGNAL"] == "SIGTERM"
    assert "ADD" not in last


class Answers(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Not into the test's output."""


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_the_image_s_health_check_asks_where_the_bot_tells(
    monkeypatch: pytest.MonkeyPatch, status: int, healthy: bool
) -> None:
    command = json.loads(dict(read_dockerfile())["HEALTHCHECK"].split(" CMD ", 1)[1])
    assert command[:2] == ["python", "-c"]
    assert f":{PORT}/" in command[2]
    monkeypatch.setattr(Answers, "status", status)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # of a company, which knows nothing of us
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        asker = Thread(target=server.handle_request)
        asker.start()
        code = command[2].replace(str(PORT), str(server.server_port))
        asked = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        asker.join()
    assert (asked.returncode == 0) == healthy


def test_compose_lets_several_bots_run_that_can_write_nothing() -> None:
    services = read_compose()["services"]
    bot, redis = services["bot"], services["redis"]
    assert not {"container_name", "ports", "user"} & set(bot)  # or a second one could not be
    assert bot["read_only"] is True
    assert bot["cap_drop"] == ["ALL"]
    assert bot["security_opt"] == ["no-new-privileges:true"]
    assert bot["depends_on"]["redis"]["condition"] == "service_healthy"
    assert parse_duration(bot["stop_grace_period"]).total_seconds() > STOP_WITHIN
    assert "test" not in bot["healthcheck"]  # the image's own
    assert "--appendonly" in redis["command"]
    assert redis["healthcheck"]["test"][0] == "CMD"
    assert "ports" not in redis


def test_the_unit_is_told_how_the_bot_is_and_gives_it_time_to_end() -> None:
    unit = read_unit()
    assert unit["Type"] == ["notify"]
    assert unit["Restart"] == ["on-failure"]
    assert unit["RestartPreventExitStatus"] == ["2"]
    assert parse_duration(unit["TimeoutStopSec"][0]).total_seconds() > STOP_WITHIN
    assert parse_duration(unit["WatchdogSec"][0]).total_seconds() >= 10
    assert unit["DynamicUser"] == ["yes"]
    assert unit["ProtectSystem"] == ["strict"]
    assert "ProcSubset" not in unit


def test_the_unit_hands_secrets_over_as_files_only() -> None:
    unit = read_unit()
    credentials = {value.split(":")[0] for value in unit["LoadCredential"]}
    assert credentials == {"slack-bot-token", "slack-app-token", "id_ed25519"}
    variables = dict(word.split("=", 1) for value in unit["Environment"] for word in value.split())
    secret = {name: value for name, value in variables.items() if "TOKEN" in name}
    assert secret == {
        "SLACK_BOT_TOKEN_FILE": "%d/slack-bot-token",
        "SLACK_APP_TOKEN_FILE": "%d/slack-app-token",
    }


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text().replace("/opt/kimi/bin/kimi-bot", sys.executable)
    (tmp_path / UNIT.name).write_text(text)
    words = ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT.name)]
    verified = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    words = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(tmp_path / UNIT.name)]
    judged = subprocess.run(words, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout[-300:]  # beyond 2.0 it would not be 0
