"""The whole examination, as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..catalog import LEVELS
from .agent import examine_agent
from .cost import HEALTH, costs, costs_of_a_limit
from .environment import Environment, read_environment
from .finding import Finding
from .program import Program, read_program


class Examination(NamedTuple):
    """What was found, in the order in which it is told."""

    settings: tuple[Finding, ...]
    agent: tuple[Finding, ...]
    program: tuple[Finding, ...]
    limits: tuple[Finding, ...]
    """One for each limit of the program."""
    outlook: tuple[Finding, ...]
    """What to expect in Datadog."""

    def marked(self, mark: str) -> list[str]:
        """Return the topics with this mark."""
        found = (*self.settings, *self.agent, *self.program, *self.outlook)
        return [finding.topic for finding in found if finding.mark == mark]


def examine(module: str | None = None) -> Examination:
    """Read the variables, send one gauge to the Agent, and look at the limits of `module`, if it is given.

    Nothing is sent where reporting is switched off. See :func:`pushmetrics.doctor.program.read_program` for `module`.
    """
    environment = read_environment()
    program = Program(None, ()) if module is None else read_program(module)
    agent = [environment.address_finding]
    if environment.settings.enabled:
        agent += examine_agent(environment.address, environment.suffix)
    return Examination(
        *(
            tuple(finding.harmless() for finding in section)
            for section in (
                environment.findings,
                agent,
                program.findings,
                program.limits,
                _outlook(environment, program),
            )
        )
    )


def _outlook(environment: Environment, program: Program) -> Iterator[Finding]:
    here = environment.settings.level
    if program.registry is not None:
        amounts = {level: str(cost + HEALTH) for level, cost in costs(program.registry).items()}
        text = f"{amounts.pop(here)} at {here} ({_listed(amounts)}) in each process, the reporter's {HEALTH} included."
    else:
        least, most = costs_of_a_limit()
        amounts = {level: f"{least[level]} to {most[level]}" for level in LEVELS}
        text = f"Each limit {amounts.pop(here)} at {here} ({_listed(amounts)}), the reporter {HEALTH}, in each process."
    yield Finding("custom metrics", text)
    yield _separation(environment)


def _separation(environment: Environment) -> Finding:
    """Say who else may push the same tags to the same Agent, which keeps the last gauge of a bucket."""
    origin = environment.origin
    if origin.keys().isdisjoint({"c", "e"}) and "dd.internal.entity_id:" not in environment.suffix:
        text = "Users and containers that push the same tags to one Agent overwrite each other's gauges."
        what_to_do = "Tell them apart: PUSHMETRICS_CONSTANT_TAGS=instance:a"
    elif origin.get("card") in ("orchestrator", "high"):
        return Finding("shared Agent", f"Containers are told apart by the Agent's tags (cardinality {origin['card']}).")
    else:
        text = "Containers that push the same tags overwrite each other's gauges unless the Agent tags each of them."
        what_to_do = "Set DD_CARDINALITY=orchestrator (Agent 7.64 or newer), or give each a constant tag of its own."
    return Finding("shared Agent", text, mark="note", details=(what_to_do,))


def _listed(amounts: dict[str, str]) -> str:
    return ", ".join(f"{level} {amount}" for level, amount in amounts.items())
