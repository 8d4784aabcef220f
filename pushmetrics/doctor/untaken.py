"""That nobody takes what is sent, and what to do about it."""

from __future__ import annotations

START = "Start the Agent, or say where it is: DD_AGENT_HOST and DD_DOGSTATSD_PORT, or DD_DOGSTATSD_URL."
RESTART = "Restart the Agent."
MOUNT = "Start the Agent; in a container, mount the directory of its socket."
CHANGE_USER = "Run as a user or in a group that may."


class UntakenError(Exception):
    """Nobody takes what is sent to an address."""

    def __init__(self, why: str, what_to_do: str) -> None:
        super().__init__(why)
        self.why = why
        self.what_to_do = what_to_do
