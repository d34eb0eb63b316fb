"""The only modules that talk to the outside world: SSH, HTTP, Slack, Redis."""
