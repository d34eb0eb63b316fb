"""A small systemd: one unit's states, jobs, restart policy and exit bookkeeping, in told time.

Theory of operation: `submit` puts a job into the unit's one slot (a newer job replaces it) and returns at
once, as `--no-block` does. One worker carries the jobs out. A run of the program is a task of its own; when
it ends, `_died` does what systemd does at a process's end: lines, result, and the restart timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import signal
import traceback
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from bot.practice.journal import MESSAGE_IDS, Journal, Stream, kernel_fields, manager_fields
from bot.practice.log_file import FileStream, LogFile
from bot.practice.process import CODE_NAMES, EXITED, KILLED, Died, Exit, Meter, Process, Program, UnitFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.clock import Clock

JobVerb = Literal["start", "stop", "restart"]


@dataclass(slots=True)
class _Job:
    number: int
    verb: JobVerb


class Unit:
    def __init__(
        self,
        file: UnitFile,
        *,
        clock: Clock,
        journal: Journal,
        program: Program,
        pids: Iterator[int],
        log: LogFile | None = None,
    ) -> None:
        """`log`: the file its output goes to, in place of the journal."""
        self.file = file
        self.log = log
        self.edited: UnitFile | None = None  # on disk, and not read by systemd yet
        self.clock = clock
        self.journal = journal
        self.pids = pids
        self.active, self.sub = "inactive", "dead"
        self.result = "success"
        self.invocation: str | None = None
        self.restarts = 0
        self.process: Process | None = None
        self.last_pid = 0
        self.last_exit: Exit | None = None
        self.last_meter: Meter | None = None
        self.stamps: dict[str, datetime] = {}
        self._program = program
        self._job: _Job | None = None
        self._jobs = itertools.count(1841, 3)
        self._wake = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._run: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._stopping = False
        self._closing = False
        self._timed_out = False
        self._fate: Exit | None = None  # what a kill from outside looks like in the books
        self._starts: list[datetime] = []

    # -- what the host does to it --------------------------------------------------------------

    def open(self) -> None:
        self._worker = asyncio.create_task(self._work(), name=f"practice unit {self.file.name}")

    async def close(self) -> None:
        """The practice ends: nothing is logged."""
        self._closing = True
        for task in (self._worker, self._timer, self._run):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    def submit(self, verb: JobVerb) -> int:
        """Enqueue a job and return its number; a pending one is replaced."""
        self._job = _Job(next(self._jobs), verb)
        self._wake.set()
        return self._job.number

    @property
    def job(self) -> int | None:
        return None if self._job is None else self._job.number

    def kill(self, number: signal.Signals = signal.SIGKILL, *, result: Exit | None = None) -> None:
        """The main process dies by someone else's hand."""
        if self._run is not None and self.process is not None:
            self._fate = result or Exit(KILLED, number)
            self._run.cancel()

    def edit(self, **changes: Any) -> None:
        """Someone changes the unit file on disk."""
        self.edited = replace(self.edited or self.file, **changes)

    def reload(self) -> None:
        """What `daemon-reload` does: what runs goes on as it was started."""
        self.file, self.edited = self.edited or self.file, None

    def resume(self, *, since: datetime) -> None:
        """It has been running since before the practice began."""
        self._start(at=since)

    async def shut_down(self) -> None:
        """The host goes down, and stops it first; what had been asked of it is forgotten."""
        self._job = None
        await self._stop()

    def boot(self, *, enabled: bool) -> None:
        """The host has booted: nothing is left of what was, and it is started if it is to be."""
        self.active, self.sub = "inactive", "dead"
        self.invocation, self.restarts, self.last_pid = None, 0, 0
        self.result, self.last_exit, self.last_meter = "success", None, None
        self.stamps.clear()
        self._starts.clear()
        if enabled:
            self._start()

    def fail_before(self) -> None:
        """It failed before the practice began."""
        self.result, self.last_exit = "signal", Exit(KILLED, signal.SIGSEGV)
        self._enter("failed", "failed")

    # -- jobs ----------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            job = self._job
            if job is not None:
                await self._carry_out(job)
                if self._job is job:
                    self._job = None

    async def _carry_out(self, job: _Job) -> None:
        waiting = self.sub == "auto-restart"
        if job.verb == "start" and (self.process is not None or waiting):
            return  # systemd leaves a unit that waits for its restart to its timer
        if job.verb in {"stop", "restart"}:
            await self._stop()
        if job.verb in {"start", "restart"} and self._job is job:
            self.restarts = 0
            self._start()

    async def _stop(self) -> None:
        if self.sub == "auto-restart":
            await self._cancel_timer()
            self._enter("inactive", "dead")
            self.say("stopped", f"Stopped {self._title}.", JOB_TYPE="stop", JOB_RESULT="done")
        if self.process is None or self._run is None:
            return
        self._stopping = True
        self.say("stopping", f"Stopping {self._title}...", JOB_TYPE="stop")
        self._enter("deactivating", "stop-sigterm")
        self.process.terminated.set()
        run = self._run
        await asyncio.wait({run}, timeout=self.clock.real(self.file.stop_timeout))
        if not run.done():
            self._kill_after_timeout(run)
            await asyncio.wait({run})
        self._stopping = False

    def _kill_after_timeout(self, run: asyncio.Task[None]) -> None:
        name = self.file.name
        self.say(None, f"{name}: State 'stop-sigterm' timed out. Killing.", PRIORITY="4")
        pid = self.process.pid if self.process is not None else 0
        self.say(None, f"{name}: Killing process {pid} (python) with signal SIGKILL.", PRIORITY="5")
        self._timed_out = True
        run.cancel()

    async def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            await asyncio.wait({timer})

    # -- runs ----------------------------------------------------------------------------------

    def _start(self, *, at: datetime | None = None) -> None:
        now = at or self.clock.now()
        if self._too_often(now):
            return
        self.invocation = secrets.token_hex(16)
        self.result, self.last_exit = "success", None
        self._timed_out, self._fate = False, None
        self.last_meter = Meter(self.clock)
        to_journal = Stream(self.journal, self._stream_fields())
        stream = FileStream(self.log) if self.log is not None else to_journal
        pid = self.last_pid = next(self.pids)
        self.process = Process(
            pid=pid,
            invocation=self.invocation,
            stream=stream,
            meter=self.last_meter,
            began=now,
            command_line=self.file.command_line,
            kernel=lambda text: self.journal.append(kernel_fields(text)),
        )
        self.stamps["ExecMainStartTimestamp"] = now
        self.stamps.pop("ExecMainExitTimestamp", None)
        self._enter("active", "running", at=now)
        self.say("started", f"Started {self._title}.", at=at, JOB_TYPE="start", JOB_RESULT="done")
        self._run = asyncio.create_task(self._live(self.process), name=f"practice run {pid}")

    def _too_often(self, now: datetime) -> bool:
        recent = [start for start in self._starts if now - start < self.file.start_limit_interval]
        if len(recent) < self.file.start_limit:
            self._starts = [*recent, now]
            return False
        self.result = "start-limit-hit"
        self.say(None, f"{self.file.name}: Start request repeated too quickly.", PRIORITY="4")
        self._say_failed()
        self.say("failed_to_start", f"Failed to start {self._title}.", PRIORITY="3", JOB_RESULT="failed")
        self._enter("failed", "failed")
        return True

    async def _live(self, process: Process) -> None:
        try:
            exit_ = await self._program.run(process)
        except Died as death:
            exit_ = death.exit
        except asyncio.CancelledError:
            if self._closing:
                raise
            exit_ = self._fate or Exit(KILLED, signal.SIGKILL)
        except Exception:  # noqa: BLE001 - a script with a fault of its own ends as any Python process does
            process.write(traceback.format_exc().encode(), pid=process.pid, comm="python")
            exit_ = Exit(EXITED, 1)
        self._died(process, exit_)

    def _died(self, process: Process, exit_: Exit) -> None:
        process.stream.close()
        process.meter.set(cores=0.0, reading=0.0)
        self.process, self._run = None, None
        self.last_exit = exit_
        self.stamps["ExecMainExitTimestamp"] = self.clock.now()
        self.result = "timeout" if self._timed_out else exit_.result
        if self.result == "oom-kill":
            told = f"{self.file.name}: A process of this unit has been killed by the OOM killer."
            self.say("out_of_memory", told, PRIORITY="4")
        if not exit_.clean:
            self._say_exit(exit_)
        if self.result == "success":
            self.say("success", f"{self.file.name}: Deactivated successfully.")
        else:
            self._say_failed()
        self._enter(*(("inactive", "dead") if self.result == "success" else ("failed", "failed")))
        if self._stopping:
            self.say("stopped", f"Stopped {self._title}.", JOB_TYPE="stop", JOB_RESULT="done")
        self._say_consumed(process)
        if not self._stopping and self._restarts():
            self._enter("activating", "auto-restart")
            self._timer = asyncio.create_task(self._restart_later(), name="practice restart timer")

    def _restarts(self) -> bool:
        policy = self.file.restart
        return policy == "always" or (policy == "on-failure" and self.result != "success")

    async def _restart_later(self) -> None:
        await self.clock.sleep(self.file.restart_after)
        self.restarts += 1
        self._timer = None
        count = self.restarts
        self.say(
            "restart_scheduled",
            f"{self.file.name}: Scheduled restart job, restart counter is at {count}.",
            N_RESTARTS=str(count),
        )
        self.say("stopped", f"Stopped {self._title}.", JOB_TYPE="restart", JOB_RESULT="done")
        self._start()

    # -- the books -----------------------------------------------------------------------------

    @property
    def _title(self) -> str:
        return f"{self.file.name} - {self.file.description}"

    def _enter(self, active: str, sub: str, *, at: datetime | None = None) -> None:
        now = at or self.clock.now()
        if (self.active == "active") != (active == "active"):
            self.stamps["ActiveEnterTimestamp" if active == "active" else "ActiveExitTimestamp"] = now
        down, was_down = active in {"inactive", "failed"}, self.active in {"inactive", "failed"}
        if down != was_down:
            self.stamps["InactiveEnterTimestamp" if down else "InactiveExitTimestamp"] = now
        self.stamps["StateChangeTimestamp"] = now
        self.active, self.sub = active, sub

    def say(self, kind: str | None, message: str, *, at: datetime | None = None, **extra: str) -> None:
        """A line of systemd's own about this unit."""
        if kind is not None:
            extra["MESSAGE_ID"] = MESSAGE_IDS[kind]
        fields = manager_fields(
            message, unit=self.file.name, user=self.file.user, invocation=self.invocation, extra=extra
        )
        self.journal.append(fields, at=at)

    def _say_exit(self, exit_: Exit) -> None:
        self.say(
            "process_exit",
            f"{self.file.name}: Main process exited, {exit_}",
            PRIORITY="5" if exit_.code == EXITED else "4",
            EXIT_CODE=CODE_NAMES[exit_.code],
            EXIT_STATUS=str(exit_.status),
            COMMAND="ExecStart",
        )

    def _say_failed(self) -> None:
        self.say(
            "failed",
            f"{self.file.name}: Failed with result '{self.result}'.",
            PRIORITY="4",
            UNIT_RESULT=self.result,
        )

    def _say_consumed(self, process: Process) -> None:
        spent = process.meter.cpu_nanoseconds
        text = render_span(timedelta(microseconds=spent // 1000))
        message = f"{self.file.name}: Consumed {text} CPU time."
        self.say("resources", message, CPU_USAGE_NSEC=str(spent))

    def _stream_fields(self) -> dict[str, bytes]:
        file = self.file
        named = {
            "SYSLOG_IDENTIFIER": "python",
            "_UID": "1000",
            "_GID": "1000",
            "_EXE": "/opt/sglang/bin/python3.12",
            "_CMDLINE": file.command_line,
            "_HOSTNAME": "llm-two",
            "_SYSTEMD_CGROUP": file.cgroup,
            "_SYSTEMD_UNIT": "user@1000.service" if file.user else file.name,
            "_SYSTEMD_INVOCATION_ID": self.invocation or "",
        }
        if file.user:
            named["_SYSTEMD_USER_UNIT"] = file.name
        return {name: value.encode() for name, value in named.items()}


def render_span(span: timedelta) -> str:
    """As systemd writes a time span: `1h 2min 3.045s`."""
    minutes, seconds = divmod(span.total_seconds(), 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [f"{hours}h"] if hours else []
    parts += [f"{minutes}min"] if minutes else []
    return " ".join([*parts, f"{seconds:.3f}s"])
