"""Which Datadog account to talk to, from the environment. Keys are never shown, not even by ``repr``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from ..errors import InvalidValueError
from ..redaction import HIDDEN, shown

DEFAULT_SITE = "datadoghq.com"

_SITE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_KEY = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Account:
    """An address and two keys."""

    url: str
    api_key: str = field(repr=False)
    app_key: str = field(repr=False)

    def hide(self, text: str) -> str:
        """Return `text` without the keys, whoever has put them there."""
        for key in sorted((self.api_key, self.app_key), key=len, reverse=True):
            text = text.replace(key, HIDDEN)
        return text


def account(environ: Mapping[str, str] = os.environ) -> Account:
    """Return the account that DD_SITE, DD_API_KEY and DD_APP_KEY name.

    As for the official client, DATADOG_API_KEY and DATADOG_APP_KEY win over the keys, and DATADOG_HOST, an address such
    as ``https://api.datadoghq.eu``, wins over DD_SITE. Raises :class:`pushmetrics.PushmetricsError` (a ValueError) for
    what is missing or bad.
    """
    return Account(_url(environ), _key(environ, "API_KEY"), _key(environ, "APP_KEY"))


def _key(environ: Mapping[str, str], name: str) -> str:
    key = (environ.get(f"DATADOG_{name}") or environ.get(f"DD_{name}") or "").strip()
    if not key:
        raise InvalidValueError(
            f"DD_{name} is not set; make one at https://app.datadoghq.com/organization-settings (on your own site)"
        )
    # A key goes into a header, and a header that is refused is quoted in the error.
    if not _KEY.fullmatch(key):
        raise InvalidValueError(f"DD_{name} holds spaces or other characters that no key has; it is not shown here")
    return key


def _url(environ: Mapping[str, str]) -> str:
    if host := environ.get("DATADOG_HOST", "").strip():
        return _checked(host)
    site = environ.get("DD_SITE", "").strip().lower() or DEFAULT_SITE
    if not _SITE.fullmatch(site) or site.startswith(("app.", "api.", "www.")):
        raise InvalidValueError(
            f"DD_SITE is a site such as datadoghq.com, us3.datadoghq.com, us5.datadoghq.com, datadoghq.eu, "
            f"ap1.datadoghq.com or ddog-gov.com, without https:// and app., got {shown(site)}"
        )
    return f"https://api.{site}"


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    if (
        "@" in parts.netloc
        or not host
        or not _KEY.fullmatch(url)
        or parts.query
        or parts.fragment
        or parts.scheme not in {"http", "https"}
    ):
        raise InvalidValueError(
            "DATADOG_HOST is an address such as https://api.datadoghq.eu, without a user or a query in it"
        )
    if parts.scheme == "http" and not _is_loopback(host):
        raise InvalidValueError(f"DATADOG_HOST: the keys would go to {host} in plain text; use https://")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
