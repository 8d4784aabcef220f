"""Integrations: what reports the limits of programs that do not know pushmetrics, once `pushmetrics run` starts them.

An integration is a function that takes a module which has just been imported, and changes what it has to. The table
says which function is for which module. Other packages add theirs with entry points of the group
``pushmetrics.integrations``: the name is that of the hooked module, the value ``package.module:function``.
"""

from __future__ import annotations

from typing import NamedTuple

ENTRY_POINT_GROUP = "pushmetrics.integrations"


class Hook(NamedTuple):
    """A function to be called with a module, when that has been imported."""

    module: str
    target: str
    """``package.module:function``."""


HOOKS = (
    Hook("nemo_gym.rollout_collection", "pushmetrics.integrations.nemo_gym:meter_rollouts"),
    Hook("nemo_gym.rollout_reverification", "pushmetrics.integrations.nemo_gym:meter_reverifications"),
    Hook("nemo_gym.sandbox.providers.registry", "pushmetrics.integrations.nemo_gym:meter_sandbox_providers"),
    Hook("nemo_gym.server_utils", "pushmetrics.integrations.nemo_gym:meter_servers"),
)


def all_hooks() -> list[Hook]:
    """Return the hooks of this package, and those of others that are installed beside it."""
    from importlib.metadata import entry_points  # Costs as much as the rest of the package.

    # Behind the function there may be extras in brackets, which are for installers.
    others = (
        Hook(point.name, point.value.partition("[")[0].replace(" ", ""))
        for point in entry_points(group=ENTRY_POINT_GROUP)
    )
    return [*HOOKS, *sorted(others)]
