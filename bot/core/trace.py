"""What the samples of one unit say together: what moves, how fast, and which rank is no longer there."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.core.cores import Cores, without_leaders
from bot.core.events import InvocationId, Rank
from bot.core.evidence import Sample

_MIB = 2**20
_READS = 16 * _MIB  # less in one interval is a log, a library, a stray file
_GPU_GREW = 64 * _MIB
_MEMORY_GREW = 256 * _MIB
_LOAD_MOVED = 10  # percentage points of a GPU; one that waits in a collective stands still, mostly at 100
_GIGA = 1e9
_GIB = 2**30
_POINTS = 7
_STEADY = 0.25  # a rate that changed by less is unchanged
_IDLE = 0.05  # of a core for each rank: a thread that looks at its clock
_BUSY = 0.85  # of a core for each rank: they all compute, or they all spin


@dataclass(frozen=True, slots=True)
class Point:
    """What rates are made of, at one moment."""

    at: datetime
    cpu: timedelta | None
    read: int | None


@dataclass(slots=True)
class Trace:
    """One unit's evidence. Dumpable: the newest samples, and what was concluded from all of them.

    Times are our clock's. `moved` is when more than the CPU moved last: it excuses silence, for a while.
    """

    invocation: InvocationId | None = None
    sample: Sample | None = None  # the newest
    before: Sample | None = None  # the one before it
    marked: Sample | None = None  # what directions are measured from: the first after the last progress
    unmarked: bool = False  # progress came since the newest sample
    since: datetime | None = None  # when the last progress came: a sample may be under way meanwhile
    points: list[Point] = field(default_factory=list)  # of the last minute: one interval alone is uneven
    moved: datetime | None = None
    started: int | None = None  # bytes read when the phase began that reads them
    ranks: dict[Rank, int] = field(default_factory=dict)  # that were seen, with their processes
    leaders: list[Rank] = field(default_factory=list)  # cores that were seen; one alone is no rank
    gone: dict[Rank, datetime] = field(default_factory=dict)  # that are seen no more, since when
    missed: list[Rank] = field(default_factory=list)  # of those gone, which were told

    def take(self, sample: Sample) -> None:
        """The next sample of the same start."""
        self.before, self.sample = self.sample, sample
        self.points = [*self.points, Point(sample.at, sample.cpu, sample.read)][-_POINTS:]
        if self.marked is None or self.unmarked:
            self.marked, self.unmarked = sample, self.since is not None and sample.at < self.since
        if self.before is not None and has_moved(self.before, sample):
            self.moved = sample.at
        self._count_ranks(sample)

    def _count_ranks(self, sample: Sample) -> None:
        """A rank is gone when others live and it does not; with all of them gone, the unit tells why."""
        present = sample.ranks
        for each in sample.processes or ():
            if each.rank is not None and each.rank not in self.leaders and each.leads:
                self.leaders.append(each.rank)
        if len(self.leaders) == 1:
            present.pop(self.leaders[0], None)
        if not present:
            self.gone.clear()
            return
        alive = {each.pid for each in sample.processes or ()}  # under another title, it is not gone
        renamed = [rank for rank, pid in self.ranks.items() if rank not in present and pid in alive]
        for rank in renamed:
            del self.ranks[rank]
        self.ranks |= present
        self.gone = {rank: self.gone.get(rank, sample.at) for rank in self.ranks if rank not in present}

    def mark(self, now: datetime) -> None:
        """Progress came: what moves is measured from here on, not from a sample taken before it."""
        self.marked, self.unmarked, self.since = self.sample, True, now

    @property
    def living(self) -> int:
        """How many ranks the newest sample shows."""
        seen = self.sample.ranks if self.sample is not None else {}
        return sum(rank in self.ranks for rank in seen)

    @property
    def at_work(self) -> int:
        """How many ranks there are that compute: a core with ranks of its own only leads them."""
        cores = Cores(heard=dict.fromkeys(self.leaders, True), several=len(self.leaders) > 1)
        return len(without_leaders(cores, tuple(self.ranks)))

    @property
    def read(self) -> int | None:
        """Bytes read since the phase began that reads the weights."""
        if self.sample is None or self.sample.read is None:
            return None
        return max(self.sample.read - (self.started or 0), 0)

    @property
    def reading(self) -> float | None:
        """Bytes a second, over the last minute."""
        return _rate(self.points[0], self.points[-1]) if self.points else None

    @property
    def cores(self) -> float | None:
        """Cores busy on average over the last minute."""
        return cores_of(self.points[0], self.points[-1]) if self.points else None

    @property
    def share(self) -> float | None:
        """How much of the weights was read, 0 to 1; None where that cannot be said."""
        read, size = self.read, self.sample.model_size if self.sample is not None else None
        return None if read is None or size is None else min(read / size, 1.0)


def has_moved(before: Sample, now: Sample) -> bool:
    """Whether more than the CPU moved: a collective that hangs keeps every core busy and moves nothing."""
    if now.shard != before.shard and now.shard is not None:
        return True
    if _gain(before.read, now.read) >= _READS or _gain(before.memory, now.memory) >= _MEMORY_GREW:
        return True
    earlier = {gpu.index: gpu for gpu in before.gpus or ()}
    pairs = ((earlier[gpu.index], gpu) for gpu in now.gpus or () if gpu.index in earlier)
    return any(
        abs(_gain(old.used, new.used)) >= _GPU_GREW
        or abs(_gain(old.utilisation, new.utilisation)) >= _LOAD_MOVED
        for old, new in pairs
    )


def _gain(before: int | None, now: int | None) -> int:
    return 0 if before is None or now is None else now - before


def _span(before: Sample | Point, now: Sample | Point) -> float:
    return (now.at - before.at).total_seconds()


def _rate(before: Point, now: Point) -> float | None:
    if before.read is None or now.read is None:
        return None
    span = _span(before, now)
    return max(now.read - before.read, 0) / span if span > 0 else None


def cores_of(before: Sample | Point | None, now: Sample | Point) -> float | None:
    """Cores busy on average from one sample to the other."""
    if before is None or before.cpu is None or now.cpu is None:
        return None
    span = _span(before, now)
    return max((now.cpu - before.cpu).total_seconds(), 0.0) / span if span > 0 else None


# ---- words ------------------------------------------------------------------------------------------------


def say_reading(trace: Trace) -> str:
    """`412 GB of 547 GB read, 1.9 GB/s`; nothing where the host does not tell."""
    read, rate = trace.read, trace.reading
    if read is None or trace.sample is None:
        return ""
    size = trace.sample.model_size
    of = f" of {_giga(size)}" if size is not None and read <= size * 1.02 else ""
    speed = f", {rate / _GIGA:.1f} GB/s" if rate is not None and rate >= _GIGA / 20 else ""
    return f"{_giga(read)}{of} read{speed}"


def say_shard(trace: Trace) -> str:
    shard = trace.sample.shard if trace.sample is not None else None
    return f"shard {shard.number} of {shard.total} is mapped" if shard is not None else ""


def say_evidence(trace: Trace) -> list[str]:
    """Each counter with its direction since the last progress, a plain sentence each."""
    now, marked = trace.sample, trace.marked
    if now is None or marked is None:
        return []
    told = [_say_cpu(trace, now), _say_gpus(marked, now), _say_read(marked, now), _say_memory(marked, now)]
    return [sentence for sentence in (*told, _say_processes(trace, now)) if sentence]


def is_spinning(trace: Trace) -> bool:
    """Every rank computes and nothing comes of it."""
    cores = trace.cores
    return cores is not None and bool(trace.ranks) and cores >= _BUSY * trace.at_work


def is_idle(trace: Trace) -> bool:
    """No rank computes, on the CPU or on a GPU, and nothing is read: they wait for what is not theirs."""
    cores, gpus = trace.cores, trace.sample.gpus if trace.sample is not None else None
    if cores is None or cores >= _IDLE * max(trace.at_work, 1) or (trace.reading or 0.0) >= _GIGA / 20:
        return False
    return all((gpu.utilisation or 0) < _LOAD_MOVED for gpu in gpus or ())


def _say_cpu(trace: Trace, now: Sample) -> str:
    lately, overall = trace.cores, cores_of(trace.marked, now)
    if overall is None:
        return ""
    spin = f": {trace.at_work} ranks compute or spin" if is_spinning(trace) else ""
    return f"CPU {overall * 100:.0f} %{_direction(overall, lately)}{spin}"


def _direction(overall: float, lately: float | None) -> str:
    if lately is None:
        return ""
    if abs(lately - overall) <= max(_STEADY * overall, 0.1):
        return ", unchanged"
    return ", rising" if lately > overall else ", falling"


def _say_gpus(marked: Sample, now: Sample) -> str:
    used = [gpu.used for gpu in now.gpus or () if gpu.used is not None]
    if not used:
        return ""
    least, most = _giga(min(used)), _giga(max(used))
    each = f" on each of {len(used)} GPUs" if len(used) > 1 else ""
    held = f"{most}{each}" if least == most else f"{least} to {most} on {len(used)} GPUs"
    busy = [gpu.utilisation for gpu in now.gpus or () if gpu.utilisation is not None]
    load = f"; utilisation {min(busy)} to {max(busy)} %" if busy else ""
    if busy and min(busy) == max(busy):
        load = f"; utilisation {max(busy)} %"
    change = (now.gpu_memory or 0) - (marked.gpu_memory or 0)
    if marked.gpu_memory is None or abs(change) < _GPU_GREW:
        return f"GPU memory unchanged at {held}{load}"
    return f"GPU memory {held}, {_giga(abs(change))} {'more' if change > 0 else 'less'} in all{load}"


def _say_read(marked: Sample, now: Sample) -> str:
    if now.read is None or marked.read is None:
        return ""
    read = max(now.read - marked.read, 0)
    return "nothing read from disk" if read < _READS else f"{_giga(read)} read from disk"


def _say_memory(marked: Sample, now: Sample) -> str:
    if now.memory is None:
        return ""
    change = _gain(marked.memory, now.memory)
    if abs(change) < _MEMORY_GREW:
        return f"memory unchanged at {now.memory / _GIB:.1f} GiB"
    return (
        f"memory {now.memory / _GIB:.1f} GiB, {abs(change) / _GIB:.1f} GiB {'more' if change > 0 else 'less'}"
    )


def _say_processes(trace: Trace, now: Sample) -> str:
    if not trace.ranks:
        return f"{now.tasks} tasks" if now.tasks else ""
    return f"{trace.living} of {len(trace.ranks)} rank processes live" + (
        f", {now.tasks} tasks" if now.tasks else ""
    )


def _giga(amount: int) -> str:
    """Decimal, as disks and GPUs are sold: `412 GB`, `3.1 GB`."""
    giga = amount / _GIGA
    return f"{giga:.0f} GB" if giga >= 10 else f"{giga:.1f} GB"  # noqa: PLR2004


def left_to_read(trace: Trace) -> timedelta | None:
    """Until the rest of the weights is read, at the present speed."""
    read, rate = trace.read, trace.reading
    size = trace.sample.model_size if trace.sample is not None else None
    if read is None or size is None or not rate or rate < _GIGA / 20:
        return None
    return timedelta(seconds=max(size - read, 0) / rate)
