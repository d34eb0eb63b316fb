"""kimi: restarts LLM services on GPU hosts and tells one Slack thread what they are doing."""
