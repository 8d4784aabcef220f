"""What can be set about the demo, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass

BUCKET_SECONDS = 1.0
"""Width of a bucket; the Agent's are of 10 s, which is slow to watch."""


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """One run of the demo. Times are in seconds."""

    duration: float = 20.0
    """How long the service is under load."""
    concurrency: int = 16
    """The rollout driver's limit: rollouts at a time."""
    limit: int = 4
    """The model server's limit: upstream requests at a time."""
    admission_timeout: float = 1.0
    """How long a request waits for the model server before it is answered with 503."""
    flush_interval: float = 1.0
    level: str = "standard"
    namespace: str | None = None
    """None for the Reporter's own default."""
    agent: bool = False
    """Push to the Agent that the DD_* variables name, not to the listener of the demo."""
