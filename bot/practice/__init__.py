"""Stand-ins for Slack, a GPU host and an engine; imported by the command line and tests alone."""
