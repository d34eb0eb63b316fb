"""What secrets look like in the logs of inference servers; group `v` is what must not be seen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MASK = "[masked]"
TRAILING = 4  # characters of a known secret that betray its beginning at the end of a cut text

# The cheap look before the patterns, over lowercased text. Each word is led by its rarest letter, with the
# rest looked for around it: the engine skips what cannot begin a match much faster than it tries a match.
GATE = re.compile(
    r"y(?<=key)|w(?<=passw)|h(?<=passph)|c(?<=sec)(?=ret)|k(?<=tok)(?=en['\"=\\])|z(?<=authoriz)(?=ation)|b(?=earer)"
    r"|_(?:(?=token(?![a-z_]))|(?<=hf_)|(?<=gh[pousr]_)|(?<=pat_)|(?<=gsk_))"
    r"|-(?:(?=-)|(?<=sk-)|(?<=pat-)|(?<=api-)|(?<=[hfspty]-)(?=token))"
    r"|x(?=ox|app-)|k(?<=ak)(?=ia)|i(?<=asi)(?=a)|j(?<=eyj)|z(?<=aiz)|:(?=//\S{1,640}@)"
)

_OUTLINE = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789", b"abcdefghijklmnopqrstuvwxyz000000000")


def outline_of(text: str) -> bytes:
    """Alike for lines that differ in their numbers alone, which is nothing to GATE: no digit stands in it.

    UnicodeEncodeError where a lone surrogate is in it.
    """
    return text.encode().translate(_OUTLINE)


_NAME = r"""(?:
    api[_-]?keys? | secret(?:[_-]?access)?(?:[_-]?key)?
  | (?:access|private|signing|encryption|account|auth|master)[_-]?key(?:[_-]?id)?
  | passwords? | passwd | passphrase
  | (?:hf|access|auth|refresh|bearer|bot|app|api|session|security|oauth|secret|private|deploy|slack
      |github|gitlab|hub|huggingface|user|client|admin|service|login|id|csrf|jwt|vault|registry)[_-]?token
)"""
# SecretStr('…', b'…', $'…'
_PREFIX = r"(?:[A-Za-z_.]{1,24}\((?=\\*[\"']))?(?:(?:[bBrRuUfF]{1,2}|\$)(?=\\*[\"']))?"
# `(?>(?:…)*)` and not `(?:…)*+`: before Python 3.11.5 the latter goes astray over alternatives.
_QUOTED = r"""(?:'(?>(?:[^'\\\r\n]|\\.)*)'? | "(?>(?:[^"\\\r\n]|\\.)*)"?)"""
# A closing bracket or comma belongs to a bare value unless something else begins behind it.
_BARE = r"""(?:[^\s"'`,;)\]}&|<>\\] | \\[^"'\r\n] | [`,;)\]}&|<>](?![\s"']|$|[\w.-]+\s*=))"""
_VALUE = rf"""{_PREFIX}(?P<v>
    \[[^\]\r\n]*+\]? | \((?=\s*\\*["'])[^)\r\n]*+\)?
  | (?P<escape>\\+["'])[^\r\n]*?(?:(?<!\\)(?P=escape)|(?=[\r\n]|\Z))
  | (?:{_QUOTED}(?>(?:{_QUOTED} | [^\s"',;:)\]}}&|<>\\]++)*))
  | (?>{_BARE}+)
)"""
_CLOSE = r"""(?:\\*["'])?"""  # of a quoted name
_GAP = r"[ \t]{0,8}"

# Words behind `--api-key` in a sentence about it.
_PROSE = (
    r"(?:is|are|was|to|and|or|if|for|the|a|an|in|with|when|not|must|can|flag|option|argument|parameter|value|before"
    r"|as|of|on|by|from|instead|should|will|has|have|so|that|which|also)\b"
)
_SCHEME = r"(?:(?:bearer|basic|token|digest|apikey|negotiate)[ \t]+)?"
_LABEL = r"[A-Z0-9 ]{0,40}"  # RSA, EC, OPENSSH, ENCRYPTED, …


_NAMED = ("key", "secret", "passw", "passph", "token")

REACH = 16  # characters before the first of _NAMED in it; no name begins earlier than `huggingface_` does


class Look(NamedTuple):
    """One of these lowercase words stands in the text, and then the pattern is worth trying.

    `near`: the words, where a match begins no more than REACH before the first of them.
    """

    needs: tuple[str, ...]
    pattern: re.Pattern[str]
    near: re.Pattern[str] | None = None

    def find(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        """Every match, as `finditer` has them; `lowered` is the text in lower case."""
        if not any(word in lowered for word in self.needs):
            return iter(())
        if self.near is None or len(lowered) != len(text):
            return self.pattern.finditer(text)
        return self._find_near(text, self.near.finditer(lowered))

    def _find_near(self, text: str, words: Iterator[re.Match[str]]) -> Iterator[re.Match[str]]:
        """Launch arguments are thousands of characters, and few of them can begin a match."""
        at = 0
        for word in words:
            for begin in range(max(at, word.start() - REACH), word.start() + 1):
                match = self.pattern.match(text, begin)
                if match is not None:
                    yield match
                    at = match.end()
                    break
            else:
                at = max(at, word.start() + 1)


def _look(needs: tuple[str, ...], source: str, flags: re.RegexFlag = re.NOFLAG) -> Look:
    return Look(needs, re.compile(source, flags))


def _look_named(source: str, needs: tuple[str, ...] = _NAMED) -> Look:
    return _look(needs, source, re.VERBOSE | re.IGNORECASE)


def _look_near(source: str) -> Look:
    return _look_named(source)._replace(near=re.compile("|".join(_NAMED)))


PATTERNS: tuple[Look, ...] = (
    # api_key='…'  "api_key": "…"  API_KEY=…  --api-key=…  os.environ['HF_TOKEN'] = '…'
    _look_near(rf"{_NAME}{_CLOSE}\]?{_GAP}(?:=>?|:=?){_GAP}{_VALUE}"),
    # ['--api-key', '…']  (b'x-api-key', b'…')
    _look_near(rf"""{_NAME}\\*["']{_GAP},{_GAP}(?=[bBuU]?\\*["']){_VALUE}"""),
    # --api-key …  --admin-api-key '…'  --hf-token "…"
    _look_named(
        rf"(?<![\w-])--?[\w-]{{0,64}}?(?:{_NAME}|token){_CLOSE}"
        rf"(?:[ \t]+(?:\\\r?\n[ \t]*)?)(?![-\s]|{_PROSE}){_VALUE}"
    ),
    # HF_TOKEN=…  'SLACK_BOT_TOKEN': '…'  --token=…; a bare number is a count of tokens
    _look_named(
        rf"(?:(?-i:(?<![A-Za-z0-9])(?:[A-Z0-9_]{{0,64}}_)?TOKEN)|(?<![\w-])--token)"
        rf"{_CLOSE}\]?{_GAP}(?P<number>[=:]){_GAP}{_VALUE}",
        ("token",),
    ),
    _look_named(
        rf"(?<![\w-])token{_CLOSE}{_GAP}[=:]{_GAP}{_CLOSE}"
        r"(?P<v>(?=[\w.~+/-]*\d)(?=[\w.~+/-]*[a-z])[\w.~+/-]{12,}+=*+)",
        ("token",),
    ),
    _look_named(r"[?&]token=(?P<v>[^&\s\"']++)", ("token",)),
    _look_named(
        rf"""authorization{_CLOSE}{_GAP}[:=,]{_GAP}(?:b(?=["']))?{_CLOSE}{_GAP}{_SCHEME}(?P<v>[^\s"'\\]++)""",
        ("authorization",),
    ),
    _look_named(r"\bbearer[ \t]++(?P<v>(?=[a-z]*[0-9._~+/=-])[\w.~+/=-]{8,}+|[a-z]{20,}+)", ("bearer",)),
    # Userinfo in a URL; a port and a path with an @ in it are none.
    _look(("://",), r"://(?P<v>[^\s/?#\"'<>\\]{1,512})@"),
    _look(("://",), r"://(?P<v>[^\s:@/\"'<>]{0,128}:(?!\d{1,5}(?:[/\"'\s]|$))[^\s@\"'<>]{1,256})@"),
    # Tokens that are known by their looks.
    _look(("hf_",), r"(?<![A-Za-z0-9])(?P<v>hf_(?:(?=[A-Za-z]*\d)[A-Za-z0-9]{10,}+|[A-Za-z0-9]{20,}+))"),
    _look(("sk-",), r"(?<![A-Za-z0-9])(?P<v>sk-(?:(?=[A-Za-z_-]*\d)[\w-]{8,}+|[\w-]{20,}+))"),
    _look(("xox", "xapp-"), r"(?<![A-Za-z0-9])(?P<v>(?:xox[a-z](?:\.xox[a-z])?|xapp)-[\w-]{8,}+)"),
    _look(("akia", "asia"), r"(?<![A-Za-z0-9])(?P<v>(?:AKIA|ASIA)[A-Z0-9]{12,}+)(?![A-Za-z0-9])"),
    _look(
        ("gh", "glpat-", "nvapi-", "gsk_", "aiza"),
        r"(?<![A-Za-z0-9])"
        r"(?P<v>(?:gh[pousr]_|github_pat_|glpat-|nvapi-|gsk_)[\w-]{16,}+|AIza[\w-]{30,}+)",
    ),
    _look(("eyj",), r"(?<![A-Za-z0-9])(?P<v>eyJ[\w-]{8,}+\.[\w-]{4,}+(?:\.[\w-]*+){0,3})"),
    _look(
        ("-----begin",),
        rf"-----BEGIN {_LABEL}PRIVATE KEY(?: BLOCK)?-----(?P<v>.*?)"
        rf"(?=-----END {_LABEL}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        re.DOTALL,
    ),
)

# The end of a text that stops in the middle of a secret, too short there for its pattern.
CUT_OFF = re.compile(
    r"(?<![A-Za-z0-9])(?P<v>(?:hf_|sk-|xox[a-z][.-]|xapp-|AKIA|ASIA|eyJ|AIza|gh[pousr]_|github_pat_|glpat-|nvapi-|gsk_)"
    r"[\w.-]*+|(?<=://)[^\s/@:]*+:(?!\d*\Z)[^\s@]*+|(?<=[Bb]earer )\S++)\Z"
)

# Values that say there is no secret, or hide it already.
NOTHING = re.compile(
    r"None|null|nil|true|false|undefined|unset|not set|str|bool|Optional(?:\[.*)?|SecretStr|\*+|\.{3}|…"
    r"|<[^>]*>|\[(?:None)?\]|\(\)|\{\}|\$\{?\w+\}?|%[rsd]|\{[\w.!]*\}",
    re.IGNORECASE,
)
NUMBER = re.compile(r"[\d.,]+")

KEY_BEGIN = re.compile(rf"-----BEGIN {_LABEL}PRIVATE KEY(?: BLOCK)?-----")
KEY_END = re.compile(rf"-----END {_LABEL}PRIVATE KEY(?: BLOCK)?-----")
# Inside an open key block: a line of nothing but base64, and a long run of it among other things.
BODY_LINE = re.compile(r"[\s>|\"']*+(?P<v>[A-Za-z0-9+/=]++)[\s\"',\\n]*+")
BODY_RUN = re.compile(r"(?P<v>[A-Za-z0-9+/]{40,}+={0,2})")
