"""The real bot as a process: configured for many services, weighed by what the kernel counts, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.fleet_hosts import MODEL, USER
from bench.fleet_slack import CHANNEL, PERSON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MARKERS = 8
_WITHIN = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Service:
    """`channel`: of those that will be restarted, its own; so no rate of Slack's is in the way."""

    name: str
    host: int
    channel: str | None = None

    @property
    def unit(self) -> str:
        return f"{self.name}.service"


def plan_fleet(services: int, per_host: int, startups: int) -> list[Service]:
    """The startups are spread over the hosts: one each before any has two."""
    hosts = max(1, services // per_host)
    return [
        Service(f"s{number:04d}", number % hosts, f"C0S{number:04d}" if number < startups else None)
        for number in range(services)
    ]


def write_configuration(path: Path, fleet: Sequence[Service], place: Mapping[str, Any], every: str) -> None:
    """`place`: what the stand-in hosts told of themselves."""
    channels = [CHANNEL, *(each.channel for each in fleet if each.channel)]
    parts = [
        f'[slack]\nchannel = "{CHANNEL}"',
        '[health]\nlisten = ""',
        f'[access]\noperators = ["{PERSON}"]\nchannels = {json.dumps(channels)}',
    ]
    parts += [
        f'[hosts.h{number:03d}]\naddress = "127.0.0.1"\nport = {port}\nuser = "{USER}"\nsudo = true\n'
        f'identity_file = "{place["identity_file"]}"\nknown_hosts = "{place["known_hosts"]}"'
        for number, port in enumerate(place["ssh"])
    ]
    for each in fleet:
        port = place["engines"].get(each.unit, place["engine"])
        own = ""
        if each.channel:
            markers = ", ".join(
                f'{{ name = "M{number}", pattern = "BENCH_DIAG_{number} " }}' for number in range(MARKERS)
            )
            own = f'channel = "{each.channel}"\nmarkers = [{markers}]\n'
        parts.append(
            f'[services.{each.name}]\nhost = "h{each.host:03d}"\nunit = "{each.unit}"\nengine = "sglang"\n'
            f'url = "http://127.0.0.1:{port}"\nreach = "direct"\nmodel = "{MODEL}"\n{own}'
            f'monitor = {{ every = "{every}" }}'
        )
    path.write_text("\n\n".join(parts) + "\n")


@dataclass(slots=True)
class Bot:
    process: asyncio.subprocess.Process
    log: Path
    began: float  # monotonic, when it was started
    told: float  # the same by the wall clock
    _read: int = 0
    facts: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    async def start(
        cls, configuration: Path, environment: Mapping[str, str], log: Path, *, far: bool = False
    ) -> Bot:
        """`far`: as if on another machine."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLACK_", "KIMI_"))}
        began, told = time.monotonic(), time.time()
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "bench.fleet_far" if far else "bot",
                "run",
                "--config",
                str(configuration),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
                env=kept | dict(environment),
            )
        return cls(process, log, began, told)

    async def fact(self, event: str, *, within: float = _WITHIN) -> dict[str, Any]:
        """The first of that name in its log, once it is there."""
        async with asyncio.timeout(within):
            while True:
                self._look()
                for fact in self.facts:
                    if fact.get("event") == event:
                        return fact
                if self.process.returncode is not None:
                    raise RuntimeError(f"the bot ended: {self.log.read_text()[-2000:]}")
                await asyncio.sleep(0.05)

    def _look(self) -> None:
        with self.log.open("rb") as reader:
            reader.seek(self._read)
            for line in reader:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                with suppress(ValueError):
                    fact = json.loads(line)
                    if isinstance(fact, dict):
                        self.facts.append(fact)

    @staticmethod
    def when(fact: Mapping[str, Any]) -> float:
        """When it was logged, by the wall clock."""
        return datetime.fromisoformat(fact["timestamp"]).timestamp()

    def problems(self) -> dict[str, int]:
        """Warnings and errors of its log, by event."""
        self._look()
        found: dict[str, int] = {}
        for fact in self.facts:
            if fact.get("level") in {"warning", "error"}:
                found[fact["event"]] = found.get(fact["event"], 0) + 1
        return found

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def waited(self) -> float:
        """Seconds that it was ready to run and had no processor: what the machine's other work costs it."""
        text = Path(f"/proc/{self.process.pid}/schedstat").read_text(encoding="ascii")
        return int(text.split()[1]) / 1e9

    def megabytes(self) -> float:
        """Resident."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024 / 1e6

    def kill(self) -> float:
        """SIGKILL; when, in monotonic seconds."""
        if self.process.returncode is None:
            self.process.kill()
        return time.monotonic()

    async def end(self, number: int = signal.SIGTERM, *, within: float = 30.0) -> None:
        """May be called twice."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        try:
            async with asyncio.timeout(within):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
