"""One call of Slack's Web API, and what its failure means for the message it carried."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from bot.clients.slack_session import assure
from bot.errors import (
    SlackBusy,
    SlackError,
    SlackRefused,
    SlackUncertain,
    SlackUnreachable,
    TokenRefused,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Meaning(StrEnum):
    """What an error code of Slack means."""

    BUSY = "busy"  # not done; later it will be
    UNCERTAIN = "uncertain"  # perhaps done: look before trying again
    REPAIRABLE = "repairable"  # not done; shorter and plainer it may pass
    GONE = "gone"  # the message can no longer be edited: post anew
    PERMANENT = "permanent"  # not done, and never will be
    LOCKED = "locked"  # not done, and nothing else will be until the token is good again


_CODES: dict[Meaning, str] = {
    Meaning.BUSY: """
        ratelimited rate_limited message_limit_exceeded accesslimited service_unavailable
        external_channel_migrating team_added_to_org org_login_required""",
    # The two duplicate_… mean that Slack knows our client_msg_id and cannot find what it belongs to.
    Meaning.UNCERTAIN: """
        internal_error fatal_error request_timeout
        duplicate_message_not_found duplicate_channel_not_found""",
    Meaning.REPAIRABLE: """
        invalid_blocks invalid_blocks_format msg_blocks_too_long msg_too_long block_mismatch
        too_many_attachments invalid_attachments attachment_payload_limit_exceeded
        markdown_text_conflict no_text invalid_arguments invalid_metadata_format invalid_metadata_schema
        metadata_too_large metadata_must_be_sent_from_app slack_connect_blocked_file_type""",
    Meaning.GONE: "message_not_found edit_window_closed cant_update_message is_inactive",
    Meaning.PERMANENT: """
        channel_not_found not_in_channel is_archived channel_is_archived thread_not_found
        cannot_reply_to_message restricted_action restricted_action_read_only_channel
        restricted_action_thread_only_channel restricted_action_non_threadable_channel
        restricted_action_thread_locked as_user_not_supported ekm_access_denied
        messages_tab_disabled user_not_found cannot_dm_bot
        no_permission missing_scope not_allowed_token_type team_access_not_granted access_denied
        enterprise_is_restricted
        two_factor_setup_required org_level_token_not_supported method_deprecated unknown_method
        deprecated_endpoint team_not_found invalid_arg_name
        file_uploads_disabled file_uploads_except_images_disabled storage_limit_reached
        file_upload_size_restricted file_too_large blocked_file_type file_not_found invalid_channel
        posting_to_channel_denied""",
    # Whoever reinstalls the app makes all that waited possible again: none of it is given up.
    Meaning.LOCKED: "invalid_auth not_authed account_inactive token_revoked token_expired",
}
MEANINGS: dict[str, Meaning] = {code: meaning for meaning, codes in _CODES.items() for code in codes.split()}
SERVER_ERROR = 500
TOO_MANY = 429
DEFAULT_RETRY_AFTER = 5.0  # where Slack says "later" without saying when

# The SDK sends these as a form; Slack's file and conversation methods refuse JSON.
_JSON_METHODS = frozenset({"chat.postMessage", "chat.update"})


def connect_slack(token: str | None, api_url: str | None = None, *, timeout: float = 15.0) -> AsyncWebClient:
    """A client that never retries by itself: the SDK's own retry of a reset connection posts twice.

    Without a session each call makes one of its own; `slack_session.open_session` gives one that is as good.
    """
    base = {} if api_url is None else {"base_url": api_url}
    return AsyncWebClient(token=token, timeout=timeout, retry_handlers=[], **base)  # type: ignore[arg-type]


def meaning_of(code: str) -> Meaning:
    """An unknown code is a refusal, and plain text is worth one more try."""
    return MEANINGS.get(code, Meaning.REPAIRABLE)


async def call(web: AsyncWebClient, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Slack's answer; arguments that are None are left out.

    Raises one of the SlackErrors, and OwnershipLost where the caller's lease ended before it could go out.
    """
    data, _ = await call_dated(web, method, arguments)
    return data


async def call_dated(
    web: AsyncWebClient, method: str, arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], datetime | None]:
    """`call`, and what time it was for Slack, to the second; None where it did not say."""
    given = {name: value for name, value in arguments.items() if value is not None}
    carrier = "json" if method in _JSON_METHODS else "params"
    assure()
    with sending(method):
        answer = await web.api_call(method, **{carrier: given})  # type: ignore[arg-type]
        if not isinstance(answer.data, dict):
            raise SlackUncertain(method, "an answer that is no JSON object")
        return answer.data, read_date(answer.headers)


@contextlib.contextmanager
def sending(method: str) -> Iterator[None]:
    """Every failure of a call, in our words."""
    try:
        yield
    except SlackApiError as error:
        raise _translate(method, error) from error
    except aiohttp.ClientConnectorError as error:
        raise SlackUnreachable(method, f"no connection ({error})") from error
    except TimeoutError as error:
        raise SlackUncertain(method, "nothing in time") from error
    except (aiohttp.ClientError, OSError, SlackClientError, AttributeError) as error:
        # AttributeError: what the SDK raises for a 200 that holds plain text.
        raise SlackUncertain(method, f"{type(error).__name__} {error}".strip()) from error


def _translate(method: str, error: SlackApiError) -> SlackError:
    response = error.response
    status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0))
    data = getattr(response, "data", None)
    code = str(data.get("error", "")) if isinstance(data, dict) else ""
    meaning = MEANINGS.get(code)
    if status == TOO_MANY or meaning is Meaning.BUSY:
        return SlackBusy(method, read_retry_after(getattr(response, "headers", {})))
    if status >= SERVER_ERROR or meaning is Meaning.UNCERTAIN or not code:
        return SlackUncertain(method, code or f"HTTP status {status}")
    if meaning is Meaning.LOCKED:
        return TokenRefused(method, code)
    return SlackRefused(method, code, repairable=meaning_of(code) is Meaning.REPAIRABLE)


def read_date(headers: Mapping[str, Any]) -> datetime | None:
    """The header's name comes in any case."""
    for name, value in headers.items():
        if name.lower() == "date":
            with contextlib.suppress(ValueError, TypeError):
                told = parsedate_to_datetime(value[0] if isinstance(value, list) else value)
                return told if told.tzinfo else told.replace(tzinfo=UTC)
    return None


def read_retry_after(headers: Mapping[str, Any]) -> float:
    """Seconds; the header's name comes in any case."""
    for name, value in headers.items():
        if name.lower() == "retry-after":
            with contextlib.suppress(ValueError):
                return max(0.0, float(value[0] if isinstance(value, list) else value))
    return DEFAULT_RETRY_AFTER
