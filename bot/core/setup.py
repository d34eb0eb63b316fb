"""What a start runs with: the unit's command and environment, the engine's arguments, versions."""

from __future__ import annotations

import re
import shlex
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bot.core.secret_patterns import MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SETUP_PROPERTIES: tuple[str, ...] = (
    "ExecStart",
    "Environment",
    "EnvironmentFiles",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
)
VERSIONED = ("sglang", "vllm", "torch")  # packages whose version is looked up beside the interpreter
DRIVER = "GPU driver"

_LONGEST_VALUE = 240  # characters; of a longer value its beginning and a checksum are kept
_MOST_ARGUMENTS = 1_000
_LONGEST_LIST = 16_000  # characters of launch arguments: a log may quote anything behind the word
# `{ path=/x ; argv[]=/x --flag v ; ignore_errors=no ; start_time=[n/a] ; … }`
_ARGV = re.compile(r"argv\[\]=(.*?)(?: ; (?:ignore_errors|start_time)=|$)")
_ENVIRONMENT_FILE = re.compile(r"(.*?)(?: \(ignore_errors=(?:yes|no)\))?")
_SECRET_NAME = re.compile(r"pass|secret|token(?!s|ize)|key|cred|auth", re.IGNORECASE)
# SGLang's `server_args=ServerArgs(a='b', …)` or a dict of the same; vLLM's `non-default args: {'a': 'b', …}`.
_ARGUMENTS = re.compile(r"(?:\bserver_args\s*[=:]\s*(?:[\w.]*ServerArgs)?|\b(non-default) args:\s*)(?=[({])")
_PIECE = re.compile(
    r"""'(?:[^'\\]|\\.){0,2000}+'|"(?:[^"\\]|\\.){0,2000}+"|[\[({]|[\])}]|,|[^'"\[\](){},]+|['"]""", re.DOTALL
)
_ADDRESS = re.compile(r"\b0x[0-9a-f]{4,}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_DIST_INFO = re.compile(rf"/({'|'.join(VERSIONED)})-([^/-]+)\.dist-info$")
# vLLM tells its version; SGLang does not.
_SAID_VERSION = re.compile(
    r"\b(vLLM) (?:API )?server version (\S+?),?(?:\s|$)|LLM engine \(v([^)\s]+)\) with config"
)


@dataclass(frozen=True, slots=True)
class Setup:
    """One member's setup; None where it is not known. Whoever makes one has masked the text before.

    `files`: the unit file, its drop-ins, its environment files. `stale`: they were changed on disk, and
    systemd has not read them since. `whole`: `arguments` holds every one the engine has, not those alone
    that differ from its defaults.
    """

    command: tuple[str, ...] | None = None
    environment: dict[str, str] | None = None
    files: tuple[str, ...] | None = None
    stale: bool = False
    arguments: dict[str, str] | None = None
    whole: bool = True
    versions: dict[str, str] = field(default_factory=dict)

    def filled_from(self, earlier: Setup) -> Setup:
        """With what this one does not know taken from `earlier`."""
        return replace(
            self,
            command=self.command if self.command is not None else earlier.command,
            environment=self.environment if self.environment is not None else earlier.environment,
            files=self.files if self.files is not None else earlier.files,
            arguments=self.arguments if self.arguments is not None else earlier.arguments,
            whole=self.whole if self.arguments is not None else earlier.whole,
            versions={**earlier.versions, **self.versions},
        )


def parse_setup(shown: str) -> Setup:
    """Read `systemctl show -p ExecStart,Environment,…`, already masked. What is missing stays unknown."""
    found: dict[str, list[str]] = {}
    for line in shown.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            found.setdefault(key.strip(), []).append(value.strip())
    return Setup(
        command=_command(found["ExecStart"]) if "ExecStart" in found else None,
        environment=_environment(found["Environment"]) if "Environment" in found else None,
        files=_files(found) if "FragmentPath" in found else None,
        stale=found.get("NeedDaemonReload") == ["yes"],
    )


def _command(values: Iterable[str]) -> tuple[str, ...] | None:
    """The words as systemd 252 joins them: with blanks, and none quoted."""
    words = [word for value in values for argv in _ARGV.findall(value) for word in argv.split()]
    return tuple(_short(word) for word in words) or None


def _environment(values: Iterable[str]) -> dict[str, str]:
    pairs = (word.partition("=") for value in values for word in _words(value))
    return {name: _hide(name, _short(value)) for name, equals, value in pairs if equals}


def _hide(name: str, value: str) -> str:
    return MASK if value and _SECRET_NAME.search(name) else value


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that masking took the end of
        return text.split()


def _files(found: Mapping[str, list[str]]) -> tuple[str, ...]:
    drop_ins = [path for value in found.get("DropInPaths", ()) for path in value.split()]
    environments = [_ENVIRONMENT_FILE.fullmatch(value) for value in found.get("EnvironmentFiles", ())]
    listed = [*found["FragmentPath"], *drop_ins, *(match[1] for match in environments if match)]
    return tuple(dict.fromkeys(path for path in listed if path))


def _short(value: str) -> str:
    """Addresses of objects and UUIDs differ from start to start and mean nothing."""
    told = _ADDRESS.sub("…", value)
    if len(told) <= _LONGEST_VALUE:
        return told
    return f"{told[: _LONGEST_VALUE - 20]}… ({zlib.crc32(told.encode(errors='replace')):08x})"


def read_arguments(text: str) -> tuple[dict[str, str], bool] | None:
    """The engine's launch arguments, where the line tells them, and whether those are all it has."""
    head = _ARGUMENTS.search(text)
    if head is None:
        return None
    sign = "=" if text[head.end()] == "(" else ":"
    arguments: dict[str, str] = {}
    for item in _items(text[head.end() + 1 :][:_LONGEST_LIST]):
        name, found, value = item.partition(sign)
        bare = _unquote(name.strip())
        if found and bare.replace("_", "").replace("-", "").isalnum() and len(arguments) < _MOST_ARGUMENTS:
            arguments[bare] = _short(_unquote(value.strip()))
    return (arguments, head[1] is None) if arguments else None


def _items(body: str) -> Iterator[str]:
    """What stands between the commas of the outermost bracket; a half item at a cut end is left out."""
    depth, item = 0, ""
    for match in _PIECE.finditer(body):
        piece = match[0]
        if depth == 0 and piece in {",", ")", "}", "]"}:
            yield item
            item = ""
            if piece != ",":
                return
            continue
        depth += (piece in {"(", "[", "{"}) - (piece in {")", "]", "}"})
        item += piece


def _unquote(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def read_version(text: str) -> dict[str, str]:
    """The engine's version, where the line tells it."""
    said = _SAID_VERSION.search(text)
    return {"vllm": said[2] or said[3]} if said is not None else {}


def parse_packages(listing: str) -> dict[str, str]:
    """Versions from paths such as `/opt/x/lib/python3.11/site-packages/sglang-0.5.9.dist-info`."""
    found = (_DIST_INFO.search(line.strip()) for line in listing.splitlines())
    return {match[1]: match[2] for match in found if match is not None}


def parse_driver(text: str) -> dict[str, str]:
    """The version file of the kernel's GPU driver."""
    first = text.strip().split("\n", 1)[0].strip()
    return {DRIVER: first} if re.fullmatch(r"[0-9][0-9A-Za-z.+~-]{0,39}", first) else {}


def library_of(command: tuple[str, ...] | None) -> str | None:
    """`/opt/sglang/lib` for a command that begins with `/opt/sglang/bin/…`: where its packages stand."""
    home, found, _ = (command[0] if command else "").rpartition("/bin/")
    return f"{home}/lib" if found and re.fullmatch(r"(?:/[\w.+-]+)+", home) else None
