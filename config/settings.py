"""What comes from the environment: secrets, and where to find the configuration and Redis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, SecretStr

from bot.errors import ConfigurationInvalid
from config.fields import check_ping_url, check_redis_url

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_CONFIG = "/etc/kimi/kimi.toml"
_PREFIXES = {
    "SLACK_BOT_TOKEN": ("xoxb-", "the bot token of the Slack app (OAuth & Permissions)"),
    "SLACK_APP_TOKEN": ("xapp-", "the app-level token with connections:write (Basic Information)"),
    "SLACK_SIGNING_SECRET": ("", "the signing secret of the Slack app (Basic Information)"),
}


class Settings(BaseModel):
    """Read once at start. Secrets never show in a repr or a log."""

    model_config = ConfigDict(frozen=True)

    bot_token: SecretStr
    app_token: SecretStr | None
    signing_secret: SecretStr | None
    slack_api_url: str = "https://slack.com/api/"
    redis_url: str | None = None  # wins over the file's [redis] url
    ping_url: SecretStr | None = None  # wins over the file's [health] ping_url
    webhook_secret: SecretStr | None = None  # signs what [incidents] webhook is told

    def secrets(self) -> tuple[str, ...]:
        """Exact strings that must never reach Redis, Slack or a log."""
        held = (self.bot_token, self.app_token, self.signing_secret, self.ping_url, self.webhook_secret)
        return tuple(secret.get_secret_value() for secret in held if secret is not None)


def config_path(environ: Mapping[str, str]) -> str:
    return environ.get("KIMI_CONFIG") or DEFAULT_CONFIG


def read_settings(environ: Mapping[str, str], *, http: bool = False) -> Settings:
    """Take the settings from `environ`; each secret may stand in a file named by `…_FILE` instead.

    Socket Mode needs the app token, HTTP mode the signing secret. Raises ConfigurationInvalid with
    one line per fault.
    """
    faults: list[str] = []
    wanted = ["SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET" if http else "SLACK_APP_TOKEN"]
    found = {name: _secret(environ, name, faults) for name in _PREFIXES}
    for name in wanted:
        if found[name] is None and not any(fault.startswith(f"environment: {name}") for fault in faults):
            faults.append(f"environment: {name} is missing; allowed: {_PREFIXES[name][1]}, or {name}_FILE")
    api_url = environ.get("SLACK_API_URL") or "https://slack.com/api/"
    if not api_url.startswith(("http://", "https://")):
        faults.append("environment: SLACK_API_URL is no http address; allowed: http://… or https://…")
    redis_url = environ.get("KIMI_REDIS_URL") or _from_file(
        environ.get("KIMI_REDIS_URL_FILE"), "KIMI_REDIS_URL", faults
    )
    try:
        check_redis_url(redis_url or "redis://")
    except ValueError as error:
        faults.append(f"environment: KIMI_REDIS_URL {error}")
    ping_url = _secret(environ, "KIMI_PING_URL", faults)
    try:
        check_ping_url(ping_url or "http://localhost")
    except ValueError as error:
        faults.append(f"environment: KIMI_PING_URL {error}")
    webhook_secret = _secret(environ, "KIMI_WEBHOOK_SECRET", faults)
    if faults:
        raise ConfigurationInvalid(tuple(faults))
    return Settings(
        bot_token=SecretStr(found["SLACK_BOT_TOKEN"] or ""),
        app_token=_wrap(found["SLACK_APP_TOKEN"]),
        signing_secret=_wrap(found["SLACK_SIGNING_SECRET"]),
        slack_api_url=api_url.rstrip("/") + "/",
        redis_url=redis_url or None,
        ping_url=_wrap(ping_url),
        webhook_secret=_wrap(webhook_secret),
    )


def read_api_key(environ: Mapping[str, str], variable: str | None) -> str | None:
    """The engine's key from the variable a service names; ConfigurationInvalid when it is not set."""
    if variable is None:
        return None
    faults: list[str] = []
    value = _secret(environ, variable, faults)
    if value is None and not faults:
        faults.append(f"environment: {variable} is missing; a service names it as api_key_env")
    if faults or value is None:
        raise ConfigurationInvalid(tuple(faults))
    return value


def _wrap(value: str | None) -> SecretStr | None:
    return SecretStr(value) if value else None


def _secret(environ: Mapping[str, str], name: str, faults: list[str]) -> str | None:
    value = environ.get(name) or _from_file(environ.get(f"{name}_FILE"), name, faults)
    prefix, what = _PREFIXES.get(name, ("", ""))
    if value and not value.startswith(prefix):
        faults.append(f'environment: {name} does not begin with "{prefix}"; allowed: {what}')
        return None
    if value and not (value.isascii() and value.isprintable()):
        faults.append(f"environment: {name} cannot be sent as a header; allowed: printable ASCII characters")
        return None
    return value or None


def _from_file(path: str | None, name: str, faults: list[str]) -> str | None:
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8"
        faults.append(f"environment: {name}_FILE names {path}, which cannot be read: {reason}")
        return None
