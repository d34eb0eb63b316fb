"""systemd's own lines about a unit, read from their words where the journal's fields are not there."""

from __future__ import annotations

import re

_UNIT = r"(?P<UNIT>[^\s:]{1,255}\.(?:service|scope|socket|target|slice|timer|mount))"
_DESCRIPTION = r"(?: - .*)?"

# Words of systemd 249 to 257, with the MESSAGE_ID its catalog gives each.
_WORDS = {
    "7d4958e842da4a758f6c1cdc7b36dcc5": rf"Starting {_UNIT}{_DESCRIPTION}(?:\.\.\.|…)",
    "39f53479d3a045ac8e11786248231fbf": rf"Started {_UNIT}{_DESCRIPTION}\.",
    "de5b426a63be47a7b6ac3eaac82e2f6f": rf"Stopping {_UNIT}{_DESCRIPTION}(?:\.\.\.|…)",
    "9d1aaa27d60140bd96365438aad20286": rf"Stopped {_UNIT}{_DESCRIPTION}\.",
    "be02cf6855d2428ba40df7e9d022f03d": rf"Failed to start {_UNIT}{_DESCRIPTION}\.",
    "98e322203f7a4ed290d09fe03c09fe15": (
        rf"{_UNIT}: Main process exited, code=(?P<EXIT_CODE>exited|killed|dumped), "
        r"status=(?P<EXIT_STATUS>\d{1,3})/\S{1,40}"
    ),
    "d9b373ed55a64feb8242e02dbe79a49c": rf"{_UNIT}: Failed with result '(?P<UNIT_RESULT>[a-z-]{{1,40}})'\.",
    "7ad2d189f7e94e70a38c781354912448": rf"{_UNIT}: (?:Deactivated successfully|Succeeded)\.",
    "5eb03494b6584870a536b337290809b3": (
        rf"{_UNIT}: Scheduled restart job.{{0,80}}, restart counter is at (?P<N_RESTARTS>\d{{1,9}})\."
    ),
    "fe6faa94e7774663a0da52717891d8ef": (
        rf"{_UNIT}: A process of this unit has been killed by the OOM killer\."
    ),
    "ae8f7b866b0347b9af31fe1c80b127c0": rf"{_UNIT}: Consumed .{{1,200}} CPU time.{{0,200}}",
    "": (
        rf"{_UNIT}: (?:Control process exited, .*|State '[a-z-]+' timed out\. .*|Killing process \d+ .*"
        r"|Start request repeated too quickly\.|Unit process \d+ .*|Found left-over process .*"
        r"|Start operation timed out\. .*|Stopping timed out\. .*)"
    ),
}
_LINES = tuple((message_id, re.compile(words, re.DOTALL)) for message_id, words in _WORDS.items())
_SUPPRESSED = re.compile(r"Suppressed (?P<N_DROPPED>\d{1,12}) messages from (?P<UNIT>\S{1,255})")


def read_manager_line(text: str) -> dict[str, str] | None:
    """UNIT, MESSAGE_ID and what else the line tells; None for what systemd never says about a unit."""
    for message_id, pattern in _LINES:
        found = pattern.fullmatch(text)
        if found is not None:
            return ({"MESSAGE_ID": message_id} if message_id else {}) | found.groupdict()
    return None


def read_suppressed(text: str) -> dict[str, str] | None:
    """The line of journald about what it dropped for exceeding the rate limit."""
    found = _SUPPRESSED.fullmatch(text)
    return found.groupdict() if found else None
