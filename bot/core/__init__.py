"""Pure decisions: bytes, events and `now` in; actions out. No asyncio, no clock, no logging."""
