"""Tests of reading what a start runs with."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.redact import Redactor
from bot.core.secret_patterns import MASK
from bot.core.setup import (
    Setup,
    library_of,
    parse_driver,
    parse_packages,
    parse_setup,
    read_arguments,
    read_version,
)
from bot.practice.scenarios import sglang_log

SHOWN = """\
ExecStart={ path=/opt/x/bin/python ; argv[]=/opt/x/bin/python -m sglang.launch_server --tp 8 --note a=b ; \
ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }
Environment=NCCL_DEBUG=INFO "GREETING=good day" MY_PASSPHRASE=rosebud EMPTY= TOKENIZERS_PARALLELISM=false
EnvironmentFiles=/etc/default/sglang (ignore_errors=no)
EnvironmentFiles=/etc/default/more (ignore_errors=yes)
FragmentPath=/etc/systemd/system/sglang.service
DropInPaths=/etc/systemd/system/sglang.service.d/a.conf /run/systemd/system/sglang.service.d/b.conf
NeedDaemonReload=yes
"""


def test_what_systemctl_shows_is_read() -> None:
    setup = parse_setup(SHOWN)
    assert setup.command == (
        "/opt/x/bin/python", "-m", "sglang.launch_server", "--tp", "8", "--note", "a=b"
    )  # fmt: skip
    assert setup.environment == {
        "NCCL_DEBUG": "INFO",
        "GREETING": "good day",
        "MY_PASSPHRASE": MASK,
        "EMPTY": "",
        "TOKENIZERS_PARALLELISM": "false",
    }
    assert setup.files == (
        "/etc/systemd/system/sglang.service",
        "/etc/systemd/system/sglang.service.d/a.conf",
        "/run/systemd/system/sglang.service.d/b.conf",
        "/etc/default/sglang",
        "/etc/default/more",
    )
    assert setup.stale


def test_what_is_not_shown_is_not_known() -> None:
    assert parse_setup("") == Setup()
    shown = parse_setup("ExecStart=\nEnvironment=\nFragmentPath=\nDropInPaths=\nNeedDaemonReload=no\n")
    assert shown == Setup(command=None, environment={}, files=())


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_read_as_something(text: str) -> None:
    parse_setup(f"ExecStart={text}\nEnvironment={text}\nEnvironmentFiles={text}\nFragmentPath={text}")
    read_arguments(f"server_args=ServerArgs({text}")
    read_arguments(f"non-default args: {{{text}")
    read_version(text)
    parse_packages(text)
    parse_driver(text)


def test_a_key_on_the_command_line_is_masked_before_it_is_read() -> None:
    shown = SHOWN.replace("--tp 8", "--api-key s3cr3t-value-9 --tp 8")
    setup = parse_setup(Redactor().redact(shown)[0])
    assert "s3cr3t-value-9" not in str(setup)
    assert setup.command is not None
    assert setup.command[-4:] == ("--tp", "8", "--note", "a=b")


@pytest.mark.parametrize(
    ("line", "arguments", "whole"),
    [
        (
            "[23:49:47] server_args=ServerArgs(model_path='/m/k, 2', tp_size=8, bs=[1, 2], o={'a': (1,)})",
            {"model_path": "/m/k, 2", "tp_size": "8", "bs": "[1, 2]", "o": "{'a': (1,)}"},
            True,
        ),
        (
            "server_args: {'model_path': '/m/k', 'api_key': '[masked]', 'x': None}",
            {"model_path": "/m/k", "api_key": "[masked]", "x": "None"},
            True,
        ),
        (
            "(APIServer pid=1) INFO [u.py:9] non-default args: {'model_tag': 'a', 'port': 8000}",
            {"model_tag": "a", "port": "8000"},
            False,
        ),
        (
            (
                "non-default args: {'f': <function g at 0x7f2b9c001234>, 'level': <L.O2: 2>, "
                "'kv': K(engine_id='0b7c5d0e-97a4-4b0c-9d3f-2f1f6f4c2a11', rank=0)}"
            ),
            {"f": "<function g at …>", "level": "<L.O2: 2>", "kv": "K(engine_id='…', rank=0)"},
            False,
        ),
        ("server_args=ServerArgs(a='it\\'s', b=\"x, y\", c=cut", {"a": "it\\'s", "b": "x, y"}, True),
    ],
)
def test_arguments_are_read_in_each_shape(line: str, arguments: dict[str, str], whole: bool) -> None:
    assert read_arguments(line) == (arguments, whole)


@pytest.mark.parametrize(
    "line", ["server_args", "args: {'a': 1}", "server_args=ServerArgs()", "my_server_args"]
)
def test_other_lines_hold_no_arguments(line: str) -> None:
    assert read_arguments(line) is None


def test_the_whole_line_of_an_engine_is_read() -> None:
    found = read_arguments(sglang_log.server_args(port=30000, ranks=8))
    assert found is not None
    assert len(found[0]) > 150
    assert found[0]["tool_call_parser"] == "kimi_k2"
    assert found[0]["disaggregation_decode_tp"] == "None"


def test_a_line_that_quotes_anything_takes_no_time() -> None:
    quoted = "'\\" * 500_000
    found = read_arguments(f"server_args=ServerArgs(tp_size=8, chat_template={quoted}")
    assert found is not None
    assert found[0]["tp_size"] == "8"


def test_a_long_value_is_kept_short_and_still_differs() -> None:
    one, other = (read_arguments(f"server_args=ServerArgs(a='{'x' * 500}{end}', b=1)") for end in ("y", "z"))
    assert one is not None
    assert other is not None
    assert len(one[0]["a"]) < 260
    assert one[0]["a"] != other[0]["a"]


def test_versions_are_read_where_they_stand() -> None:
    assert read_version("(APIServer pid=1) INFO vLLM API server version 0.19.1") == {"vllm": "0.19.1"}
    assert read_version("vLLM server version 0.33.0, serving model /m/k") == {"vllm": "0.33.0"}
    assert read_version("Initializing a V1 LLM engine (v0.19.1) with config: …") == {"vllm": "0.19.1"}
    assert read_version("version 2") == {}
    listing = "/o/lib/python3.11/sglang-0.5.9.dist-info\n/o/torch-2.8.0+cu128.dist-info\n/x/y-1.dist-info"
    assert parse_packages(listing) == {"sglang": "0.5.9", "torch": "2.8.0+cu128"}
    assert parse_driver("570.124.06\n") == {"GPU driver": "570.124.06"}
    assert parse_driver("cat: no such file") == {}


def test_packages_stand_beside_the_interpreter() -> None:
    assert library_of(("/opt/sglang/bin/python", "-m", "x")) == "/opt/sglang/lib"
    assert library_of(("/opt/a b/bin/python",)) is None
    assert library_of(("python",)) is None
    assert library_of(None) is None


def test_what_is_not_known_now_is_taken_from_before() -> None:
    before = Setup(command=("a",), arguments={"x": "1"}, whole=False, versions={"torch": "2", "sglang": "1"})
    now = Setup(environment={"A": "1"}, stale=True, versions={"sglang": "2"})
    assert now.filled_from(before) == Setup(
        command=("a",),
        environment={"A": "1"},
        stale=True,
        arguments={"x": "1"},
        whole=False,
        versions={"torch": "2", "sglang": "2"},
    )


def test_a_setup_is_plain_data() -> None:
    kept = TypeAdapter(Setup)
    setup = parse_setup(SHOWN)
    assert kept.validate_json(kept.dump_json(setup)) == setup
