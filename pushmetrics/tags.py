"""Bounded tags: put into Datadog's normal form before they are compared, and checked once, where they enter.

The normal form is Datadog's (https://docs.datadoghq.com/getting_started/tagging/): a tag starts with a letter, holds
letters, digits, ``_ - : . /``, anything else becomes ``_``, it is lower-case, at most 200 characters, and does not
end in ``_`` or ``:``. Since none of the characters that carry meaning on the wire is among them, a tag in normal form
can not break out of its field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .errors import InvalidTypeError, InvalidValueError
from .model import Tags
from .redaction import shown

MAX_TAG_LENGTH = 200
MAX_LIMIT_TAGS = 5
MAX_NAME_LENGTH = 200

OWN_KEYS = frozenset({"component", "limit_name", "server", "worker"})
CONSUMED_KEYS = frozenset({"host", "device", "source", "jmx_check_name"})
"""Keys that the Agent or the backend consumes or replaces."""

UNIFIED_KEYS = frozenset({"env", "service", "version"})
"""Datadog's unified service tags: a property of the process, so constant tags may carry them and a limit may not."""

INTERNAL_PREFIX = "dd.internal."


def normalize(tag: str) -> str:
    """Return `tag` in Datadog's normal form; an empty string when nothing of it is left.

    >>> normalize("Region:EU West")
    'region:eu_west'
    """
    cleaned = re.sub(r"[^\w\-:./]", "_", tag.lower())
    start = next((i for i, character in enumerate(cleaned) if character.isalpha()), len(cleaned))
    return cleaned[start : start + MAX_TAG_LENGTH].rstrip("_:")


def limit_tags(
    component: str,
    limit_name: str,
    server: str | None = None,
    tags: Mapping[str, str] | Iterable[str] | None = None,
) -> Tags:
    """Return the tags of a limit, checked and in normal form.

    `tags` is a mapping, or an iterable of ``"key:value"`` strings, of at most five tags whose keys are not reserved.
    The caller's object is only read.

    Raises :class:`InvalidTypeError` for anything that is not a string, and :class:`InvalidValueError` for a reserved
    key, a sixth tag, a tag without a key, or a value of which nothing is left in normal form.

    >>> limit_tags("Model Server", "requests", tags={"region": "eu"})
    ('component:model_server', 'limit_name:requests', 'region:eu')
    """
    named = [_tag("component", component, "component"), _tag("limit_name", limit_name, "limit_name")]
    if server is not None:
        named.append(_tag("server", server, "server"))
    extra = sorted({_limit_tag(key, value) for key, value in _pairs(tags)})
    if len(extra) > MAX_LIMIT_TAGS:
        raise InvalidValueError(
            f"tags: a limit has at most {MAX_LIMIT_TAGS} tags beside component, limit_name and server, "
            f"got {len(extra)}: {shown(extra)}; each distinct value is a series that is billed"
        )
    return (*named, *extra)


def constant_tag(tag: object) -> str:
    """Return one constant tag in normal form: ``key:value``, or a bare value.

    Raises :class:`InvalidTypeError` or :class:`InvalidValueError` when it is no string, when its key is one of the
    limits' own (component, limit_name, server, worker) or consumed by the Agent (host, device, source,
    jmx_check_name, dd.internal.*), or when nothing of its key or value is left in normal form.
    """
    if not isinstance(tag, str):
        raise InvalidTypeError(f"constant_tags: a tag is a string such as 'team:search', got {shown(tag)}")
    key, colon, value = tag.partition(":")
    if not colon:
        normal = normalize(tag)
        if not normal:
            raise InvalidValueError(f"constant_tags: nothing of {shown(tag)} is left in Datadog's normal form")
        return normal
    key = normalize(key)
    if key in OWN_KEYS or key in CONSUMED_KEYS or key.startswith(INTERNAL_PREFIX):
        raise InvalidValueError(f"constant_tags: the key {shown(key)} is reserved, got {shown(tag)}; use another key")
    return _tag(key, value, "constant_tags")


def metric_namespace(namespace: object) -> str:
    """Return `namespace` in Datadog's form for metric names: ASCII letters, digits, ``_`` and ``.``, a letter first.

    Raises :class:`InvalidTypeError` or :class:`InvalidValueError` when it is no string or nothing of it is left.
    See https://docs.datadoghq.com/metrics/custom_metrics/#naming-custom-metrics.
    """
    if not isinstance(namespace, str):
        raise InvalidTypeError(f"namespace: expected a string such as 'myapp.concurrency', got {shown(namespace)}")
    cleaned = re.sub(r"[^a-zA-Z0-9_.]", "_", namespace).lstrip("_.0123456789").rstrip("_.")
    # Room for the longest name of the catalogue behind it.
    cleaned = cleaned[: MAX_NAME_LENGTH - 40].rstrip("_.")
    if not cleaned:
        raise InvalidValueError(
            f"namespace: nothing of {shown(namespace)} is left as a metric name; it starts with an ASCII letter and "
            "holds letters, digits, '_' and '.'"
        )
    return cleaned


def _pairs(tags: Mapping[str, str] | Iterable[str] | None) -> Iterable[tuple[object, object]]:
    if tags is None:
        return []
    if isinstance(tags, Mapping):
        return list(tags.items())
    if isinstance(tags, (str, bytes)) or not isinstance(tags, Iterable):
        raise InvalidTypeError(f"tags: expected a mapping or a list of 'key:value' strings, got {shown(tags)}")
    pairs: list[tuple[object, object]] = []
    for tag in tags:
        if not isinstance(tag, str):
            raise InvalidTypeError(f"tags: each tag is a 'key:value' string, got {shown(tag)}")
        if ":" not in tag:
            raise InvalidValueError(f"tags: each tag is a 'key:value' string, got {shown(tag)}")
        key, _, value = tag.partition(":")
        pairs.append((key, value))
    return pairs


def _limit_tag(key: object, value: object) -> str:
    if not isinstance(key, str):
        raise InvalidTypeError(f"tags: a key is a string, got {shown(key)}")
    normal_key = normalize(key)
    if not normal_key or ":" in normal_key or normal_key[0] != key[:1].lower():
        raise InvalidValueError(f"tags: a key starts with a letter and has no ':', got {shown(key)}")
    reserved = OWN_KEYS | CONSUMED_KEYS | UNIFIED_KEYS
    if normal_key in reserved or normal_key.startswith(INTERNAL_PREFIX):
        raise InvalidValueError(
            f"tags: the key {shown(key)} is reserved ({', '.join(sorted(reserved))}, {INTERNAL_PREFIX}*); "
            "use another key"
        )
    return _tag(normal_key, value, f"tags[{shown(key)}]")


def _tag(key: str, value: object, argument: str) -> str:
    if not isinstance(value, str):
        raise InvalidTypeError(f"{argument}: expected a string, got {shown(value)}")
    normal = normalize(f"{key}:{value}")
    if not key or len(normal) <= len(key) + 1 or not any(map(str.isalnum, normal[len(key) + 1 :])):
        raise InvalidValueError(
            f"{argument}: nothing of {shown(value)} is left in Datadog's normal form "
            "(letters, digits, '_', '-', ':', '.', '/'; no '_' or ':' at the end)"
        )
    return normal
