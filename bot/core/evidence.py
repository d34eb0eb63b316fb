"""What a host measures of a unit that starts: one sample, and how to read the answers it is made from."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import timedelta

from bot.core.events import Gpu, InvocationId, ProcessSeen, Rank, Sample, ShardMapped
from bot.core.unit import parse_show, read_properties

__all__ = [
    "HUB_PROPERTIES",
    "PROCESS_PATTERN",
    "SAMPLE_PROPERTIES",
    "WEIGHT_FILES",
    "Counters",
    "Facts",
    "Gpu",
    "ProcessSeen",
    "Sample",
    "ShardMapped",
    "hub_folders",
    "parse_counters",
    "parse_gpus",
    "parse_pids",
    "parse_processes",
    "parse_sizes",
    "read_model_path",
    "read_title",
]

SAMPLE_PROPERTIES: tuple[str, ...] = (
    "InvocationID",
    "ControlGroup",
    "CPUUsageNSec",
    "MemoryCurrent",
    "TasksCurrent",
    "IOReadBytes",
)
# For grep -o -E over /proc/PID/{cmdline,io,maps}: what is asked of a process, and nothing else of its command
# line, which may hold a key. Titles are set by the engines: `sglang::scheduler_TP5`, `VLLM::Worker_TP3`,
# and where data is parallel, `VLLM::EngineCore_DP1`, in vLLM 0.10 `VLLM::DPEngineCore_1`.
PROCESS_PATTERN = (
    r"^(sglang|VLLM)::[A-Za-z0-9_]+|^read_bytes: [0-9]+"
    r"|[A-Za-z0-9._-]+-[0-9]{5}-of-[0-9]{5,6}\.(safetensors|bin|gguf)"
)
# The forms in which weights lie; where there are several, an engine loads the first of these.
WEIGHT_FILES = (".safetensors", ".gguf", ".bin")

_FACT = re.compile(r"^/proc/([0-9]{1,10})/(cmdline|io|maps):(.*)$", re.MULTILINE)
_REFUSED = re.compile(r"/proc/[0-9]+/(io|maps): (?:Permission denied|Operation not permitted)")
_TITLE = re.compile(
    r"(?:sglang::scheduler|VLLM::(?:Worker|EngineCore))(?P<places>(?:_[A-Z_]+?[0-9]+)+)"
    r"|VLLM::DPEngineCore_(?P<core>[0-9]+)$"
)
_CORE = re.compile(r"VLLM::(?:DP)?EngineCore_")
_PLACE = re.compile(r"_((?:ATTN_|MOE_)?[A-Z]+)([0-9]+)")
_SHARD = re.compile(r"-([0-9]{5})-of-([0-9]{5,6})\.")
_SIZE = re.compile(r"\s*([0-9]{1,20})(?: (.*?))?\s*")
_MERGED = "consolidated"  # what a vendor's own loader reads, beside the same weights in shards
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Counters:
    """What `systemctl show` says about the unit, and where its processes are."""

    group: str = ""
    invocation: InvocationId | None = None
    cpu: timedelta | None = None
    memory: int | None = None
    tasks: int | None = None
    read: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What /proc says about the processes of a unit; `refused` names the files that were not to be read."""

    processes: tuple[ProcessSeen, ...] = ()
    read: int | None = None
    shard: ShardMapped | None = None
    refused: frozenset[str] = frozenset()


def parse_counters(text: str) -> Counters:
    """`systemctl show -p …`; what is `[not set]` is None."""
    unit = parse_show(text)
    group = read_properties(text).get("ControlGroup", "")
    return Counters(
        group=group if re.fullmatch(r"(?:/[^/\0]+)+", group) and "/../" not in f"{group}/" else "",
        invocation=unit.invocation,
        cpu=unit.cpu,
        memory=unit.memory,
        tasks=unit.tasks,
        read=unit.read,
    )


def parse_pids(text: str) -> tuple[int, ...]:
    """One a line, as in cgroup.procs; each once, in order."""
    return tuple(dict.fromkeys(int(word) for word in text.split() if re.fullmatch(r"[1-9][0-9]{0,9}", word)))


def parse_processes(out: str, complaints: str) -> Facts:
    """What grep found in the files of /proc, and which it was not let into."""
    processes: dict[int, ProcessSeen] = {}
    reads: list[int | None] = []
    shards: set[tuple[int, int]] = set()
    for pid, kind, text in _FACT.findall(out):
        match kind:
            case "cmdline":
                seen = ProcessSeen(int(pid), text, read_title(text), leads=_CORE.match(text) is not None)
                processes.setdefault(seen.pid, seen)
            case "io":
                reads += [_number(text.rpartition(" ")[2])]
            case _:
                shards.update((int(number), int(total)) for number, total in _SHARD.findall(text))
    refused = frozenset(_REFUSED.findall(complaints))
    return Facts(
        processes=tuple(processes.values()),
        read=_total(reads) if "io" not in refused else None,
        shard=_furthest(shards),
        refused=refused,
    )


def read_title(title: str) -> Rank | None:
    """`sglang::scheduler_DP0_TP5` → "DP0 TP5", as lines of the log are tagged; None for what is no rank."""
    found = _TITLE.match(title)
    if found is None:
        return None
    if found["core"]:
        return Rank(f"DP{found['core']}")
    return Rank(" ".join("".join(part) for part in _PLACE.findall(found["places"])))


def _furthest(shards: set[tuple[int, int]]) -> ShardMapped | None:
    """Of the target's files, which are the most. All mapped at once tell nothing about how far it is."""
    if not shards:
        return None
    most = max(total for _, total in shards)
    numbers = {number for number, total in shards if total == most}
    return None if len(numbers) * 2 > most > 1 else ShardMapped(max(numbers), most)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """`0, 75612, 81559, 100` a GPU, memory in MiB, as nvidia-smi prints csv without header and units.

    A value it does not have reads `[N/A]` or `[Not Supported]`; other lines are complaints.
    """
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        index, *values = map(_number, cells)
        if index is not None and len(values) == 3:  # noqa: PLR2004 - as many as were asked for
            found.append(Gpu(index, _bytes(values[0]), _bytes(values[1]), values[2]))
    return tuple(found)


def _bytes(mebibytes: int | None) -> int | None:
    return None if mebibytes is None else mebibytes * _MIB


def parse_sizes(text: str) -> int | None:
    """The sum over one file a line, `SIZE NAME`; None where none was found.

    A model may lie there in several forms, of which an engine loads one.
    """
    found = [match.groups() for match in map(_SIZE.fullmatch, text.splitlines()) if match is not None]
    seen = {name or f"{place}": int(size) for place, (size, name) in enumerate(found)}
    sizes = [(size, name) for name, size in seen.items()]  # of two revisions the same file counts once
    for ending in WEIGHT_FILES:
        if alike := [each for each in sizes if each[1].endswith(ending)]:
            sizes = alike
            break
    sharded = [size for size, name in sizes if not name.startswith(_MERGED)]
    return sum(sharded or [size for size, _ in sizes]) or None


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


# Quoted or bare, with a dash or an underscore, in a dict, in a call or on a command line.
_MODEL = re.compile(
    r"\bmodel(?:[_-]path)?['\"]?(?:\s*+[=:]\s*+|\s++)['\"]?"
    r"(/[^'\",\s)}]{1,4000}|\w[\w.-]{0,95}/\w[\w.-]{0,95}(?=['\",\s)}]|$))"
)


def read_model_path(reading: str) -> str | None:
    """Where the weights lie, from the line in which an engine prints its arguments; or a hub's name."""
    if "args" not in reading and "config" not in reading:
        return None
    found = _MODEL.search(reading)
    return found[1] if found is not None and "/../" not in found[1] else None


HUB_PROPERTIES: tuple[str, ...] = ("Environment", "User")


def hub_folders(shown: str, name: str) -> tuple[str, ...]:
    """Where the files of `org/model` may lie, by what `systemctl show` says of the unit.

    As huggingface_hub looks for them: HF_HUB_CACHE, else HF_HOME, else XDG_CACHE_HOME, else the home.
    """
    told = read_properties(shown)
    try:
        words = shlex.split(told.get("Environment", ""))
    except ValueError:
        words = []
    set_ = dict(word.split("=", 1) for word in words if "=" in word)
    user = told.get("User", "") or "root"
    home = set_.get("HOME") or ("/root" if user == "root" else f"/home/{user}")
    caches = [
        set_.get("HF_HUB_CACHE"),
        set_.get("HUGGINGFACE_HUB_CACHE"),
        f"{set_['HF_HOME']}/hub" if "HF_HOME" in set_ else None,
        f"{set_.get('XDG_CACHE_HOME') or f'{home}/.cache'}/huggingface/hub",
    ]
    chosen = next(cache for cache in caches if cache)
    folder = f"{chosen.rstrip('/')}/models--{name.replace('/', '--')}/snapshots"
    return (folder,) if folder.startswith("/") and "/../" not in folder else ()
