"""The whole bot against the practice workspace: command, thread, verdict."""
