"""Which names are given to secrets, and which values under such a name are one.

`api_key` names a secret, `max_token` a number and `token_count` a count. And what stands under the name of a secret
need not be one: a type, a placeholder, a call that fetches it, or a sentence about it is none.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

_LEAST_TOKEN, _LONG_TOKEN, _MIXED_TOKEN = 6, 20, 12


Kind: TypeAlias = Literal["password", "key", "token", "secret"]
"""What a name stands for. "key" is certain (`api_key`, `access_token`, `client_secret`), "token" and "secret" are words
that also mean other things."""


_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_AFTER = _words(
    "value string text plain raw prod production dev development test testing stage staging live old new current "
    "default confirm confirmation repeat again"
)


_ABOUT = _words("is has needs requires show hide check verify validate ask forgot forgotten")
"""A name that begins so says something of a secret: `has_password: yes`."""


_PASSWORDS = _words("passwort passphrase passcode pwd pw")


_PASS_OF = _words(
    "db database user root admin smtp mysql pg postgres postgresql redis mongo ftp mail email imap ssh login proxy "
    "http basic auth"
)


_KEYS = _words(
    "accesskey secretkey privatekey authkey accountkey sharedaccesskey signingkey encryptionkey authtoken accesstoken "
    "refreshtoken bearertoken apitoken sessiontoken idtoken clientsecret appsecret sharedsecret"
)


_KEY_OF = _words(
    "api access secret private auth signing signature encryption master service account shared license deploy ssh "
    "subscription storage webhook hmac aes"
)


_TOKEN_OF = _words(
    "access auth authorization authentication refresh bearer api id session csrf xsrf bot github gitlab git slack hf "
    "huggingface hub personal pat secret oauth jwt app user client service security private deploy npm pypi vault "
    "discord telegram admin login web device upload registry"
)


_NO_TOKEN = _words(
    "max min maximum minimum num number n count total next prev previous pad eos bos unk mask cls sep special stop "
    "start end per first last prompt completion input output cached reasoning image think extra new unknown each every"
)


_SECRET_OF = _words(
    "client app application shared consumer webhook signing jwt session api auth oauth token cookie aws user nextauth "
    "totp otp"
)


_PLACEHOLDER = re.compile(
    r"[*•.…_#-]+|(?i:x[x-]{2,})|<[^>]*>|\[[^\]]*\]|\$\{[^}]*\}|\$[A-Z_][A-Z0-9_]*|\$\d|\$\(.*|\{\{.*\}\}|\{\w*\}"
    r"|%\w+%|%\(\w+\)s|%s|(?i:your[ _-].*)"
    r"|(?i:example|sample|dummy|placeholder|redacted|masked|hidden|removed)(?:[ _-].*)?",
    re.DOTALL,
)


_WORDS = _words(
    "str string bytes int integer float bool boolean number object array any none null nil undefined true false text "
    "char varchar uuid secretstr optional required yes no n/a na todo tbd unset set empty missing wrong invalid "
    "incorrect expired changed reset unknown default must should is are was can may will has have the a an this that "
    "your my our their its in on at of to for from with and or not be by as if it header query cookie env password "
    "token secret key"
)


_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[]|(?:os|env|environ|process|config|cfg|conf|settings|self|this|args|kwargs|request|req|ctx|"
    r"context|secrets|params|options|opts|credentials|creds|props|environment|event|state|data|user|app|vault|st)\.\w"
)


_NUMBER = re.compile(r"[-+]?[\d.,_/]+\s?(?:[A-Za-z]{1,3}|%)?")


_FILE = re.compile(r"[~.]{0,2}/?[\w./ -]*\.(?:pem|key|crt|cer|der|p12|pfx|pub|txt|json|ya?ml|env|md|py)", re.IGNORECASE)


_FOLDER = re.compile(r"[~/]|[A-Za-z]:\\")


_LETTERS = re.compile(r"[^\W\d_][^\W\d_'\u2019-]*[.!?:]?")


_LEAST_NUMBER = {"password": 4, "key": 8}


_SHORT_WORD = 8


def kind_of_name(name: str) -> Kind | None:
    """What a name says of the value that it is given to; None if it does not speak of a secret.

    Args:
        name: As it is written: `api_key`, `X-Api-Key`, `openaiApiKey`, `DB_PASSWORD`.
    """
    parts = [part.lower() for part in _PARTS.findall(name[-200:])]
    while len(parts) > 1 and (parts[-1] in _AFTER or parts[-1].isdigit()):
        parts.pop()
    if not parts or parts[0] in _ABOUT:
        return None
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last in _PASSWORDS or last.endswith(("password", "passwd")) or (last == "pass" and before in _PASS_OF):
        return "password"
    if last in _KEYS or last.endswith("apikey") or (last == "key" and before in _KEY_OF):
        return "key"
    if last == "token":
        return None if before in _NO_TOKEN else "key" if before in _TOKEN_OF else "token"
    if last in ("secret", "credential", "credentials"):
        return "key" if before in _SECRET_OF else "secret"
    return None


def is_placeholder(value: str) -> bool:
    """Whether a text only stands for a secret: `***`, `<your key>`, `${KEY}`."""
    return _PLACEHOLDER.fullmatch(value) is not None


def is_secret_value(  # noqa: PLR0911 - one line for each reason
    value: str, kind: Kind, *, quoted: bool, assigned: bool = False, prose: bool = False
) -> bool:
    """Whether a value is a secret, given that its name says so.

    Args:
        value: What stands there.
        kind: What its name says.
        quoted: Whether it stands in quotes, or is a value of its own.
        assigned: Whether `=` stands before it, and not `:`. Default False.
        prose: Whether words go on after it. Default False.
    """
    value = value.strip()
    if not any(map(str.isalnum, value)) or is_placeholder(value) or value.lower().rstrip(".:!") in _WORDS:
        return False
    if not quoted and _CODE.match(value):
        return False
    words = value.split()
    if (len(words) > 1 and _is_sentence(words, kind)) or _FILE.fullmatch(value):
        return False
    if _NUMBER.fullmatch(value):
        digits = sum(map(str.isdigit, value))
        return digits == len(value) and digits >= _LEAST_NUMBER.get(kind, digits + 1)
    only_letters = _LETTERS.fullmatch(value) is not None
    if prose and only_letters:
        return False
    if kind == "token":
        return _is_token(value, only_letters=only_letters)
    if kind == "secret":
        return quoted or assigned or not only_letters
    if kind == "key":
        return quoted or assigned or not only_letters or len(value) >= _SHORT_WORD
    return not (_FOLDER.match(value) and not quoted)


def _is_sentence(words: list[str], kind: Kind) -> bool:
    """Whether words speak of a secret; those of a passphrase are one."""
    return kind != "password" or words[0].lower() in _WORDS


def _is_token(value: str, *, only_letters: bool) -> bool:
    if only_letters:
        mixed = not (value.islower() or value.isupper() or value.istitle())
        return len(value) >= _LONG_TOKEN or (mixed and len(value) >= _MIXED_TOKEN)
    digits, letters = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    return len(value) >= _LONG_TOKEN or (digits and letters and len(value) >= _LEAST_TOKEN)
