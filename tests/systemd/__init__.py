"""The same bot against a real systemd, journald and sshd."""
