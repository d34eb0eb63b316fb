"""Words people try that are no verbs: which verb comes nearest, by what it means or how it is spelt."""

from __future__ import annotations

from difflib import get_close_matches

from bot.core.command import Word

_CLOSE = 0.6  # of difflib's ratio, to a verb
_VERY_CLOSE = 0.8  # to one of many words that are no verbs themselves

SYNONYMS = {
    word: verb
    for verb, words in {
        Word.STATUS: "stat state health info show list ls ps services check ping",
        Word.RESTART: "reboot bounce relaunch redeploy",
        Word.START: "up boot launch run",
        Word.STOP: "down kill halt shutdown terminate abort cancel",  # `start` looks like one of them
        Word.WATCH: "follow",
        Word.UNWATCH: "unfollow",
        Word.LOGS: "tail journal journalctl",
        Word.HISTORY: "past startups",
        Word.WHY: "explain cause reason diagnose",
        Word.SMOKE: "test",
        Word.RELOAD: "daemon-reload",
        Word.INCIDENTS: "outages outage alerts",
        Word.ACK: "acknowledge",
        Word.MUTE: "silence snooze pause",
        Word.UNMUTE: "unsilence",
        Word.RESOLVE: "close",
    }.items()
    for word in words.split()
}


def guess_verb(word: str) -> Word | None:
    """What a misspelt word was meant to be; None where it is far from all."""
    near = get_close_matches(word, [*Word], 1, _CLOSE)
    if near:
        return Word(near[0])
    alike = get_close_matches(word, SYNONYMS, 1, _VERY_CLOSE)
    return SYNONYMS[alike[0]] if alike else None
