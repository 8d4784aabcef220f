"""Pushes of limits as a reporter makes them, fed to a receiver without a socket."""

from __future__ import annotations

from pushmetrics.live.limits import KINDS
from pushmetrics.receiver import Receiver

SERVER = ("component:model_server", "limit_name:upstream_requests", "server:policy_model")
VERIFIER = ("component:resources_server", "limit_name:library_verifier", "server:math_with_judge")
DRIVER = ("component:rollout_driver", "limit_name:rollouts")

HEALTH = b"""\
pushmetrics.series:3|g
pushmetrics.series_rejected_total:0|c
pushmetrics.flush_lag_ms:1|g
pushmetrics.flush_duration_ms:2|g
pushmetrics.send_failures_total:0|c
pushmetrics.counts_expired_total:0|c"""


def push(
    receiver: Receiver, tags: tuple[str, ...] = SERVER, *, namespace: str = "gym.concurrency", **values: float
) -> None:
    """Push the metrics of one limit, by their names in the catalogue."""
    suffix = f"|#{','.join(tags)}" if tags else ""
    lines = [f"{namespace}.{name}:{value}|{KINDS[name]}{suffix}" for name, value in values.items()]
    receiver.feed("\n".join(lines).encode())


def push_full(receiver: Receiver, tags: tuple[str, ...] = SERVER, **values: float) -> None:
    """Push a limit of 4 at the level "standard": full, with a queue of 10, unless `values` say otherwise."""
    usual = {
        "limit": 4,
        "active": 4,
        "available": 0,
        "queue_depth": 10,
        "admission_cancelled_total": 0,
        "active_peak": 4,
        "queue_depth_peak": 12,
        "oldest_wait_ms": 850,
        "contended_ms_total": 1000,
        "admissions_total": 5,
        "admissions_queued_total": 4,
    }
    push(receiver, tags, **(usual | values))
