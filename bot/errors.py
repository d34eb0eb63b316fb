"""Every error this product raises, in one tree.

KimiError
├── ConfigurationInvalid          the TOML or the environment is wrong; carries every fault found
├── CommandRefused                a person may not, or the words make no sense
├── HostError                     anything about one host; names the host
│   ├── HostUnreachable           no connection: refused, timed out, name unknown, link lost
│   ├── HostKeyRejected           the host key is not the one in known_hosts
│   ├── LoginRefused              our key is not accepted
│   ├── CommandTimedOut           the host accepted and then hung
│   ├── PermissionRefused         sudo, systemctl or the journal said no
│   ├── OrderLate                 an order came to the host after its deadline; nothing was done
│   ├── UnitUnknown               systemd has no such unit
│   └── UnitCommandFailed         systemctl answered with an error of its own
├── StoreUnavailable              Redis does not answer
│   └── StoreEmptied              Redis came back empty: what it held must be rebuilt
├── RecordUnreadable              a Redis record of another shape; set aside, never dropped
├── OwnershipLost                 another process owns this startup now
├── Leaving                       this process is being stopped: another one goes on
└── SlackError
    ├── SlackRefused              Slack said no, for good (`permanent`) or repairable
    │   └── TokenRefused          no to our token: nothing at all goes until it is good again
    ├── SlackBusy                 Slack said later; carries the seconds
    ├── SlackUnreachable          no connection: nothing was sent
    └── SlackUncertain            sent, but whether it arrived is unknown
"""

from __future__ import annotations


class KimiError(Exception):
    """The root; `str()` is a sentence a person can act on."""


class ConfigurationInvalid(KimiError):
    """Configuration that cannot be used; `faults` holds one line per fault, each naming file and key."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class CommandRefused(KimiError):
    """What a person asked for is not done; the sentence is for that person alone."""


class HostError(KimiError):
    """Something about one host; `host` is its name in the configuration.

    `sent`: a command had gone out when this happened, and may have been carried out.
    """

    def __init__(self, host: str, sentence: str, *, sent: bool = False) -> None:
        super().__init__(sentence)
        self.host = host
        self.sent = sent


class HostUnreachable(HostError):
    pass


class HostKeyRejected(HostError):
    pass


class LoginRefused(HostError):
    pass


class CommandTimedOut(HostError):
    pass


class PermissionRefused(HostError):
    pass


class OrderLate(HostError):
    pass


class UnitUnknown(HostError):
    pass


class UnitCommandFailed(HostError):
    pass


class StoreUnavailable(KimiError):
    pass


class StoreEmptied(StoreUnavailable):
    pass


class RecordUnreadable(KimiError):
    pass


class OwnershipLost(KimiError):
    pass


class Leaving(KimiError):
    pass


class SlackError(KimiError):
    """A Web API call that did not succeed; `method` and Slack's `code`."""

    def __init__(self, method: str, code: str) -> None:
        super().__init__(f"Slack answered {code} to {method}")
        self.method = method
        self.code = code


class SlackRefused(SlackError):
    """`repairable`: the same thing said shorter and plainer may pass."""

    def __init__(self, method: str, code: str, *, repairable: bool = False) -> None:
        super().__init__(method, code)
        self.repairable = repairable


class TokenRefused(SlackRefused):
    pass


class SlackBusy(SlackError):
    def __init__(self, method: str, retry_after: float) -> None:
        super().__init__(method, "ratelimited")
        self.retry_after = retry_after


class SlackUnreachable(SlackError):
    pass


class SlackUncertain(SlackError):
    pass
