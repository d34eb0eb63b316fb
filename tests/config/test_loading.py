"""Reading the operator's file: every fault at once, each naming file, key and what is allowed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from bot.errors import ConfigurationInvalid
from config.loading import load_configuration

EXAMPLE = Path(__file__).parents[2] / "config" / "kimi.example.toml"
GOOD = """
[slack]
channel = "C0123456789"
[hosts.h]
address = "h.example"
user = "kimi"
identity_file = "/k"
known_hosts = "/kh"
[services.s]
host = "h"
unit = "u.service"
url = "http://127.0.0.1:30000"
model = "m"
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "kimi.toml"
    file.write_text(text, encoding="utf-8")
    return file


def faults_of(file: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigurationInvalid) as caught:
        load_configuration(file)
    return caught.value.faults


def test_the_example_loads() -> None:
    example = load_configuration(EXAMPLE)
    kimi = example.services["kimi-k2.5"]
    assert kimi.patience == {"weights": timedelta(minutes=15)}
    assert kimi.markers[0].pattern == "DFLASH_DIAG"
    assert [member.host for member in example.services["deepseek-r1"].units] == ["llm-two", "llm-three"]


def test_all_faults_come_at_once_and_name_file_key_and_way_out(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        GOOD.replace('model = "m"', 'modle = "m"\nranks = "eight"\nstable_for = "soon"\nreach = "telnet"')
        + '[access]\noperators = ["@alice"]\nchanels = []\n[services.s.patience]\nloading = "3m"\n',
    )
    text = "\n".join(faults_of(file))
    for expected in (
        f"{file}: services.s.model: is missing",
        f"{file}: services.s.modle: unknown key; did you mean 'model'? allowed: host, unit, members",
        f"{file}: services.s.ranks: is 'eight'; allowed: a whole number",
        f"{file}: services.s.stable_for: is 'soon'; allowed: a duration",
        f"{file}: services.s.reach: is 'telnet'; allowed: 'ssh' or 'direct'",
        f"{file}: access.operators.0: is '@alice'; allowed: a user id",
        f"{file}: access.chanels: unknown key; did you mean 'channels'? allowed: operators, channels",
        f"{file}: services.s.patience.loading: is 'loading'; allowed: 'stopping'",
    ):
        assert expected in text


def test_a_name_that_points_nowhere_is_told_beside_the_rest(tmp_path: Path) -> None:
    text = GOOD.replace('host = "h"', 'host = "elsewhere"').replace('model = "m"', "model = 3")
    wrong_type, dangling = faults_of(write(tmp_path, text))
    assert "services.s.model: is 3" in wrong_type
    assert "is 'elsewhere', which no [hosts] table has" in dangling


def test_an_engine_that_is_not_there_is_told_beside_the_rest_and_left_to_who_reads_it_where_it_is_alone(
    tmp_path: Path,
) -> None:
    unknown = GOOD.replace('model = "m"', 'model = "m"\nengine = "mystery"')
    file = write(tmp_path, unknown.replace('host = "h"', 'host = "elsewhere"'))
    _, fault = faults_of(file)
    assert fault.startswith(f"{file}: services.\"s\".engine: no engine file 'mystery'; allowed: auto, ")
    file = write(tmp_path, unknown + "nonsense = 1\n")
    assert [fault for fault in faults_of(file) if "mystery" in fault]
    assert load_configuration(write(tmp_path, unknown)).services["s"].engine == "mystery"


def test_a_name_that_points_nowhere_is_told_alone_too(tmp_path: Path) -> None:
    [fault] = faults_of(write(tmp_path, GOOD.replace('host = "h"', 'host = "elsewhere"')))
    assert "services.\"s\".host: is 'elsewhere'" in fault
    assert "allowed: h" in fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [("[slack\n", "is no TOML"), ("", "slack: is missing"), ("slack = 3\n", "slack: is 3; allowed: a table")],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    assert any(fault in line for line in faults_of(write(tmp_path, text)))


def test_a_file_that_is_not_there_is_named_with_the_way_out(tmp_path: Path) -> None:
    [fault] = faults_of(tmp_path / "none.toml")
    assert (
        fault
        == f"{tmp_path / 'none.toml'}: cannot be read: No such file or directory; name another with --config"
    )


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "kimi.toml"
    file.write_bytes(b"\xff\xfe")
    [fault] = faults_of(file)
    assert "is not UTF-8" in fault


def test_a_dotted_name_is_quoted_in_its_key(tmp_path: Path) -> None:
    [fault] = faults_of(
        write(tmp_path, GOOD.replace("[services.s]", '[services."k2.5"]').replace('"m"', "3"))
    )
    assert 'services."k2.5".model: is 3; allowed: text in quotes' in fault
