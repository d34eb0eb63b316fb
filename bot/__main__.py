"""The `kimi-bot` command: run, demo, check, replay, manifest, host-setup.

Each command loads what it needs itself: what the others need would hold up a bot that is started again.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bot.errors import ConfigurationInvalid, KimiError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from bot.core.outcome import Outcome

T = TypeVar("T")
MANIFEST = Path(__file__).parent.parent / "config" / "slack-manifest.json"
BAD_CONFIGURATION = 2
INTERRUPTED = 130
_LISTEN = "127.0.0.1:3000"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status is part of the public contract."""
    given = sys.argv[1:] if arguments is None else arguments
    options = make_parser(given).parse_args(given)
    try:
        return _run_command(options)
    except ConfigurationInvalid as error:
        _complain(*error.faults)
        return BAD_CONFIGURATION
    except KimiError as error:
        _complain(str(error))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `kimi-bot … | head`: nobody reads any more, and Python must not complain of it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run_command(options: argparse.Namespace) -> int:
    status = int(options.command(options))
    sys.stdout.flush()  # now, while a reader that left is no error
    return status


def _complain(*lines: str) -> None:
    for line in lines:
        print(f"kimi-bot: {line}", file=sys.stderr)


def make_parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """With the options of the command that was given."""
    parser = argparse.ArgumentParser(
        prog="kimi-bot",
        description="Restarts LLM services on GPU hosts from Slack and tells one thread what they are doing.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        own = commands.add_parser(command.name, help=command.help, description=command.help)
        if command.name in given:
            command.describe(own)
        own.set_defaults(command=command.run)
    return parser


def _config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="F", help="the configuration, else $KIMI_CONFIG, else /etc/kimi/kimi.toml"
    )


def _path(options: argparse.Namespace) -> Path:
    from config.settings import config_path

    return Path(options.config or config_path(os.environ))


# run


def _describe_run(parser: argparse.ArgumentParser) -> None:
    _config(parser)
    parser.add_argument("--http", action="store_true", help="listen for Slack's requests, not Socket Mode")
    parser.add_argument("--listen", metavar="HOST:PORT", help=f"where --http listens, else {_LISTEN}")


def _run(options: argparse.Namespace) -> int:
    # What is loaded stays: looking through it for garbage, now and later on, takes a sixth of the time.
    gc.disable()
    from bot.app import faults_of_parts
    from bot.run import parse_listen, run
    from config.loading import load_configuration
    from config.settings import read_settings

    gc.freeze()
    gc.enable()
    listen = parse_listen(_LISTEN if options.listen is None else options.listen) if options.http else None
    path = _path(options)
    faults: list[str] = []
    if options.listen is not None and not options.http:
        faults.append("--listen: needs --http: Socket Mode listens nowhere")
    configuration = _gather(faults, lambda: load_configuration(path))
    settings = _gather(faults, lambda: read_settings(os.environ, http=options.http))
    if configuration is not None:
        faults.extend(faults_of_parts(configuration, os.environ, path=path))
    if configuration is None or settings is None or faults:
        raise ConfigurationInvalid(tuple(faults))
    return asyncio.run(run(configuration, settings, folder=path.parent, listen=listen))


def _gather(faults: list[str], read: Callable[[], T]) -> T | None:
    """What `read` returns; its faults beside those of the others where it cannot."""
    try:
        return read()
    except ConfigurationInvalid as error:
        faults.extend(error.faults)
        return None


# demo


def _describe_demo(parser: argparse.ArgumentParser) -> None:
    from bot.practice.demo import DEFAULT_SPEED
    from bot.practice.scenarios import SCENARIOS

    parser.add_argument("--port", type=int, default=0, metavar="P", help="of the practice workspace's page")
    parser.add_argument("--say", action="append", default=[], metavar="WORDS", help="type this, then end")
    parser.add_argument("--scenario", default="healthy", choices=sorted(SCENARIOS), help="what happens")
    parser.add_argument(
        "--speed", type=_speed, default=DEFAULT_SPEED, metavar="X", help="told time over real"
    )


def _speed(text: str) -> float:
    speed = float(text)
    if not 0.1 <= speed <= 1000:  # noqa: PLR2004 - beyond, nothing can be followed
        raise argparse.ArgumentTypeError("allowed: 0.1 to 1000")
    return speed


def _demo(options: argparse.Namespace) -> int:
    from bot.practice.demo import Demo
    from bot.practice.scenarios import SCENARIOS

    demo = Demo(
        scenario=SCENARIOS[options.scenario],
        speed=options.speed,
        port=options.port,
        say=tuple(options.say),
        show=lambda text: print(text, flush=True),
    )
    return asyncio.run(demo.run())


# check


def _describe_check(parser: argparse.ArgumentParser) -> None:
    _config(parser)
    parser.add_argument("--offline", action="store_true", help="the configuration alone")


def _check(options: argparse.Namespace) -> int:
    from bot.check import check
    from bot.check_rows import render_findings
    from bot.run import configure_logging

    if not options.offline:
        configure_logging(level=logging.WARNING)  # on standard error: the table alone stands on the other
    findings = asyncio.run(check(_path(options), os.environ, offline=options.offline))
    print(render_findings(findings))
    return 0 if all(finding.good for finding in findings) else 1


# replay


def _describe_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a saved log, or - for standard input")
    parser.add_argument("--engine", default="auto", metavar="NAME", help="which engine printed it")
    parser.add_argument("--idle", type=_age, metavar="30m", help="how long ago its last line was")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--chart", metavar="PNG", help="write a picture of its phases, rank by rank, there")


def _age(text: str) -> timedelta:
    from config.fields import parse_age

    try:
        return parse_age(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _replay(options: argparse.Namespace) -> int:
    from bot.replay import replay

    try:
        with sys.stdin.buffer if options.file == "-" else Path(options.file).open("rb") as stream:
            outcome = replay(stream, engine=options.engine, idle=options.idle)
    except OSError as error:
        _complain(f"{options.file}: cannot be read: {error.strerror or error}")
        return BAD_CONFIGURATION
    # Before anything is printed: who reads that may leave.
    drawn = options.chart is None or _draw(outcome, Path(options.chart))
    print(json.dumps(outcome.to_json(), ensure_ascii=False) if options.json else outcome.to_text())
    return outcome.exit_code if drawn else BAD_CONFIGURATION


def _draw(outcome: Outcome, path: Path) -> bool:
    """False: it could not be written. A log without a phase has nothing to draw, and that is only said."""
    from bot.pictures import draw_waterfall

    waterfall = outcome.waterfall()
    if waterfall is None:
        _complain(f"{path}: not written: the log shows no phase")
        return True
    try:
        path.write_bytes(draw_waterfall(waterfall))
    except OSError as error:
        _complain(f"{path}: cannot be written: {error.strerror or error}")
        return False
    return True


# manifest, host-setup


def _nothing(_: argparse.ArgumentParser) -> None:
    """A command without options."""


def _manifest(_: argparse.Namespace) -> int:
    print(MANIFEST.read_text(encoding="utf-8"), end="")
    return 0


def _describe_host_setup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", nargs="+", metavar="SERVICE")
    _config(parser)


def _host_setup(options: argparse.Namespace) -> int:
    from bot.host_setup import render_host_setup
    from config.loading import load_configuration

    print(render_host_setup(load_configuration(_path(options)), options.service), end="")
    return 0


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    help: str
    describe: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


COMMANDS = (
    Command("run", "run the bot", _describe_run, _run),
    Command(
        "demo", "everything embedded: practice workspace, GPU host, engine, Redis", _describe_demo, _demo
    ),
    Command("check", "check configuration, Redis, Slack, hosts and services", _describe_check, _check),
    Command("replay", "tell what a saved log says of a start", _describe_replay, _replay),
    Command("manifest", "print the Slack app manifest", _nothing, _manifest),
    Command("host-setup", "print what to run on a service's host", _describe_host_setup, _host_setup),
)

if __name__ == "__main__":
    sys.exit(main())
