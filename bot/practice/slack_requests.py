"""HTTP mode: payloads posted to the app's request URL, signed, with Slack's three seconds."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any
from urllib.parse import urlencode

import aiohttp

from bot.practice.slack_socket import Answer, Envelope

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
FINE = 200


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """`X-Slack-Signature`: v0= HMAC-SHA256 of "v0:timestamp:raw body"."""
    base = b"v0:%d:%b" % (timestamp, body)
    return "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()


def write_body(envelope: Envelope) -> tuple[bytes, str]:
    """The raw body and its content type: commands are forms, interactions JSON in a form, events JSON."""
    match envelope.kind:
        case "slash_commands":
            return urlencode(envelope.payload).encode(), FORM
        case "interactive":
            return urlencode({"payload": json.dumps(envelope.payload)}).encode(), FORM
        case _:
            return json.dumps(envelope.payload).encode(), JSON


def read_answer(text: str, content_type: str) -> dict[str, Any] | None:
    """Plain text is a message of that text; an empty body is no answer."""
    if not text.strip():
        return None
    if content_type != JSON:
        return {"text": text}
    answer = json.loads(text)
    return answer if isinstance(answer, dict) else None


class RequestUrl:
    """Delivers to one address, as Socket Mode does to its connections."""

    def __init__(self, url: str, secret: str, *, ack_timeout: float = 3.0) -> None:
        self.url = url
        self._secret = secret
        self.ack_timeout = ack_timeout

    async def verify(self) -> bool:
        """Slack's handshake when a request URL is entered: the challenge must come back."""
        challenge = hashlib.sha256(self.url.encode()).hexdigest()
        note = {"type": "url_verification", "challenge": challenge, "token": ""}
        answer = await self.deliver(Envelope("events_api", note))
        return answer.payload is not None and challenge in answer.payload.values()

    async def deliver(self, envelope: Envelope) -> Answer:
        began = time.monotonic()
        body, content_type = write_body(envelope)
        try:
            payload = await self._post(body, self._headers(envelope, body, content_type))
        except TimeoutError:
            return Answer(acknowledged=False, seconds=time.monotonic() - began, error="operation_timeout")
        except (aiohttp.ClientError, ValueError):
            return Answer(acknowledged=False, seconds=time.monotonic() - began, error="dispatch_failed")
        return Answer(acknowledged=True, seconds=time.monotonic() - began, payload=payload)

    async def _post(self, body: bytes, headers: dict[str, str]) -> dict[str, Any] | None:
        timeout = aiohttp.ClientTimeout(total=self.ack_timeout)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(self.url, data=body, headers=headers) as response,
        ):
            if response.status != FINE:
                raise aiohttp.ClientError(f"HTTP {response.status}")
            return read_answer(await response.text(), response.content_type)

    def _headers(self, envelope: Envelope, body: bytes, content_type: str) -> dict[str, str]:
        timestamp = int(time.time())
        headers = {
            "Content-Type": content_type,
            "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
            "X-Slack-Request-Timestamp": str(timestamp),
            "X-Slack-Signature": sign(self._secret, timestamp, body),
        }
        if envelope.retry:
            headers |= {
                "X-Slack-Retry-Num": str(envelope.retry),
                "X-Slack-Retry-Reason": envelope.retry_reason,
            }
        return headers
