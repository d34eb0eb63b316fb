"""systemd's sentences, told apart."""

from __future__ import annotations

import pytest

from bot.core.manager_lines import read_manager_line, read_suppressed

UNIT = "sglang-kimi.service"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (f"Starting {UNIT} - Kimi on eight GPUs...", {"MESSAGE_ID": "7d4958e842da4a758f6c1cdc7b36dcc5"}),
        (f"Started {UNIT} - Kimi on eight GPUs.", {"MESSAGE_ID": "39f53479d3a045ac8e11786248231fbf"}),
        (f"Stopping {UNIT}...", {"MESSAGE_ID": "de5b426a63be47a7b6ac3eaac82e2f6f"}),
        (f"Stopped {UNIT}.", {"MESSAGE_ID": "9d1aaa27d60140bd96365438aad20286"}),
        (f"Failed to start {UNIT} - Kimi.", {"MESSAGE_ID": "be02cf6855d2428ba40df7e9d022f03d"}),
        (
            f"{UNIT}: Main process exited, code=killed, status=9/KILL",
            {
                "MESSAGE_ID": "98e322203f7a4ed290d09fe03c09fe15",
                "EXIT_CODE": "killed",
                "EXIT_STATUS": "9",
            },
        ),
        (
            f"{UNIT}: Main process exited, code=exited, status=203/EXEC",
            {
                "MESSAGE_ID": "98e322203f7a4ed290d09fe03c09fe15",
                "EXIT_CODE": "exited",
                "EXIT_STATUS": "203",
            },
        ),
        (
            f"{UNIT}: Failed with result 'oom-kill'.",
            {"MESSAGE_ID": "d9b373ed55a64feb8242e02dbe79a49c", "UNIT_RESULT": "oom-kill"},
        ),
        (f"{UNIT}: Deactivated successfully.", {"MESSAGE_ID": "7ad2d189f7e94e70a38c781354912448"}),
        (
            f"{UNIT}: Scheduled restart job, restart counter is at 57.",
            {"MESSAGE_ID": "5eb03494b6584870a536b337290809b3", "N_RESTARTS": "57"},
        ),
        (
            f"{UNIT}: A process of this unit has been killed by the OOM killer.",
            {"MESSAGE_ID": "fe6faa94e7774663a0da52717891d8ef"},
        ),
        (
            f"{UNIT}: Consumed 3h 2min 1s CPU time, 700G memory peak.",
            {"MESSAGE_ID": "ae8f7b866b0347b9af31fe1c80b127c0"},
        ),
        (f"{UNIT}: State 'stop-sigterm' timed out. Killing.", {}),
        (f"{UNIT}: Killing process 4711 (python3) with signal SIGKILL.", {}),
        (f"{UNIT}: Start request repeated too quickly.", {}),
    ],
)
def test_what_systemd_says(text: str, fields: dict[str, str]) -> None:
    assert read_manager_line(text) == {"UNIT": UNIT} | fields


@pytest.mark.parametrize(
    "text",
    [
        "Started server process [4711]",
        "Stopping early.",
        f"{UNIT}: says something else",
        "a: Main process exited, code=killed, status=9/KILL",
        f"log of {UNIT}: Failed with result 'signal'.",
        "",
    ],
)
def test_what_others_say(text: str) -> None:
    assert read_manager_line(text) is None


def test_what_journald_dropped() -> None:
    assert read_suppressed(f"Suppressed 1234 messages from {UNIT}") == {"N_DROPPED": "1234", "UNIT": UNIT}
    assert read_suppressed("Suppressed nothing") is None
