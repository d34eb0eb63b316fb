"""The command line: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.__main__ import MANIFEST, main
from tests.support.commands import KIMI, TOML, clean_environment, kimi, write_configuration
from tests.support.journals import journal
from tests.support.pictures import read_png

EXAMPLE = Path(__file__).parents[2] / "config" / "kimi.example.toml"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("SLACK_", "KIMI_")):
            monkeypatch.delenv(name)


# ---- what a command loads ------------------------------------------------------------------------------

LOADED = """
import sys
from bot.__main__ import main
main(sys.argv[1:])
print(*sorted(sys.modules))
"""


def loaded_by(*arguments: str) -> list[str]:
    command = [sys.executable, "-c", LOADED, *arguments]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return told.stdout.splitlines()[-1].split()


def test_a_bot_that_is_started_again_is_not_held_up_by_what_other_commands_need() -> None:
    loaded = loaded_by("run", "--config", "/no/such/kimi.toml")
    assert "bot.app" in loaded
    others = ("bot.practice", "bot.check", "bot.replay", "bot.chart", "matplotlib", "numpy")
    assert [name for name in loaded if name.startswith(others)] == []
    assert "pydantic" not in loaded_by("manifest")


# ---- run with what cannot be used ---------------------------------------------------------------------


async def test_run_with_bad_configuration_prints_every_fault_and_ends_with_2(tmp_path: Path) -> None:
    bad = TOML.replace('channel = "C0OPS"', 'channel = "ops"').replace("port = 1", "port = 0")
    ended = await kimi("run", "--config", str(write_configuration(tmp_path, text=bad)))
    assert ended.status == 2
    lines = ended.err.splitlines()
    assert all(line.startswith("kimi-bot: ") for line in lines)
    for word in ("slack.channel", "hosts.llm-two.port", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"):
        assert sum(word in line for line in lines) == 1, (word, lines)
    assert ended.out == ""


def test_faults_of_engines_and_keys_are_told_with_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_configuration(tmp_path, text=TOML + 'engine = "mystery"\napi_key_env = "NO_SUCH_KEY"\n')
    assert main(["run", "--config", str(path)]) == 2
    told = capsys.readouterr().err
    for word in ('services."kimi-k2.5".engine', "NO_SUCH_KEY is missing", "SLACK_BOT_TOKEN is missing"):
        assert word in told


@pytest.mark.parametrize("listen", ["3000", "localhost:", ":3000", "localhost:65536", "localhost:-1", "a:b"])
def test_where_nobody_can_listen_is_said_at_once(listen: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--http", "--listen", listen]) == 2
    assert "HOST:PORT such as 127.0.0.1:3000" in capsys.readouterr().err


def test_where_nobody_listens_an_address_is_refused_with_the_other_faults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--listen", "127.0.0.1:3000", "--config", "/no/such/kimi.toml"]) == 2
    told = capsys.readouterr().err
    assert "kimi-bot: --listen: needs --http: Socket Mode listens nowhere" in told
    assert "/no/such/kimi.toml: cannot be read" in told


def test_a_configuration_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KIMI_CONFIG", "/no/such/kimi.toml")
    assert main(["run"]) == 2
    assert "/no/such/kimi.toml: cannot be read" in capsys.readouterr().err


# ---- check --------------------------------------------------------------------------------------------


def test_check_offline_looks_at_the_configuration_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--offline", "--config", str(EXAMPLE)]) == 0
    assert capsys.readouterr().out.startswith("ok    configuration  ")


def test_check_of_a_bad_configuration_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_configuration(tmp_path, text=TOML.replace('unit = "sglang-kimi.service"', ""))
    assert main(["check", "--offline", "--config", str(path)]) == 1
    assert capsys.readouterr().out.startswith("WRONG configuration  ")


# ---- replay -------------------------------------------------------------------------------------------


async def test_replay_reads_a_file_or_standard_input_alike(tmp_path: Path) -> None:
    data = journal("0.5.8").healthy().data()
    saved = tmp_path / "saved.log"
    saved.write_bytes(data)
    from_file = await kimi("replay", str(saved), "--json")
    from_input = await kimi("replay", "-", "--json", given=data)
    assert (from_file.status, from_input.status) == (0, 0)
    assert json.loads(from_file.out) == json.loads(from_input.out)
    assert json.loads(from_file.out)["state"] == "ready"


def test_replay_of_a_start_that_hangs_has_a_status_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved.log"
    saved.write_bytes(b"[2026-05-29 23:49:47 TP0] Load weight begin. avail mem=78.50 GB\n")
    assert main(["replay", str(saved), "--idle", "10h"]) == 4
    assert "weights" in capsys.readouterr().out
    assert main(["replay", str(saved), "--idle", "30d"]) == 4
    assert main(["replay", str(saved), "--idle", "0s"]) == 5
    with pytest.raises(SystemExit, match="2"):
        main(["replay", str(saved), "--idle", "soon"])


def test_replay_of_a_file_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        assert main(["replay", str(path)]) == 2
        told = capsys.readouterr()
        assert told.err.startswith(f"kimi-bot: {path}: cannot be read: ")
        assert told.out == ""


def test_replay_draws_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, chart = tmp_path / "saved.log", tmp_path / "start.png"
    saved.write_bytes(journal("0.5.8").healthy().data())
    assert main(["replay", str(saved), "--json", "--chart", str(chart)]) == 0
    assert read_png(chart.read_bytes()).width == 936
    assert json.loads(capsys.readouterr().out)["state"] == "ready"
    assert main(["replay", str(saved), "--chart", str(tmp_path / "none" / "start.png")]) == 2
    assert "start.png: cannot be written: " in capsys.readouterr().err


def test_the_picture_is_drawn_though_nobody_reads_the_summary(tmp_path: Path) -> None:
    saved, chart = tmp_path / "saved.log", tmp_path / "start.png"
    saved.write_bytes(journal("0.5.8").healthy().data())
    there, ours = os.pipe()
    os.close(there)  # it left before the first line
    words = [*KIMI, "replay", str(saved), "--chart", str(chart)]
    environment = clean_environment() | {"PYTHONUNBUFFERED": "1"}
    ended = subprocess.run(words, stdout=ours, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(ours)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert read_png(chart.read_bytes()).width == 936


def test_replay_of_a_log_without_a_phase_has_nothing_to_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, chart = tmp_path / "saved.log", tmp_path / "start.png"
    saved.write_bytes(b"\n")
    assert main(["replay", str(saved), "--chart", str(chart)]) == 5
    assert not chart.exists()
    assert "not written: the log shows no phase" in capsys.readouterr().err


# ---- manifest, host-setup -----------------------------------------------------------------------------


def test_manifest_is_what_slack_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifest"]) == 0
    printed = capsys.readouterr().out
    assert printed == MANIFEST.read_text()
    assert json.loads(printed)["features"]["slash_commands"][0]["command"] == "/kimi"


def test_host_setup_is_a_script_for_the_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["host-setup", "kimi-k2.5", "--config", str(EXAMPLE)]) == 0
    assert "systemctl restart --no-block sglang-kimi.service" in capsys.readouterr().out
    assert main(["host-setup", "kimi-k9", "--config", str(EXAMPLE)]) == 2
    assert "kimi-k9 is not configured" in capsys.readouterr().err


# ---- how it ends --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["manifest"], ["host-setup", "kimi-k2.5", "--config", str(EXAMPLE)]])
def test_a_reader_that_left_is_no_error(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [*KIMI, *words], stdout=writing, stderr=subprocess.PIPE, env=clean_environment(), check=False
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr.decode()) == (0, "")


@pytest.mark.parametrize("words", [[], ["fly"], ["demo", "--speed", "0"], ["demo", "--scenario", "none"]])
def test_words_that_are_none_end_with_2_and_the_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert "usage: kimi-bot" in capsys.readouterr().err


def test_an_interruption_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("config.loading.load_configuration", interrupt)
    assert main(["host-setup", "kimi-k2.5"]) == 130
