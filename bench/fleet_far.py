"""`kimi-bot` as if it ran on another machine: no other process can tell that it is dead, but by its lease."""

from __future__ import annotations

import sys

from bot.__main__ import main
from bot.clients import identity

if __name__ == "__main__":
    vars(identity)["_boot"] = lambda: "a-machine-elsewhere"
    sys.exit(main(sys.argv[1:]))
