"""Templates against Datadog's own schema: the models of its API client."""

from __future__ import annotations

from typing import Any

from .templates import Template


def problems(template: Template) -> list[str]:
    """Return what Datadog's API would not understand of a template; raises ModuleNotFoundError without the client.

    The client does not refuse a part that fits none of its models: it keeps it aside, unparsed. So all of it is walked.
    """
    from datadog_api_client.configuration import Configuration
    from datadog_api_client.model_utils import validate_and_convert_types
    from datadog_api_client.v1.model.dashboard import Dashboard
    from datadog_api_client.v1.model.monitor import Monitor

    model = Dashboard if template.kind == "dashboard" else Monitor
    try:
        parsed = validate_and_convert_types(template.body, (model,), [template.name], True, True, Configuration())
    except (TypeError, ValueError) as error:
        return [f"{template.name}: {error}"]
    return [f"{template.name}: {problem}" for problem in _not_understood(parsed, "")]


def _not_understood(value: Any, path: str) -> list[str]:
    if isinstance(value, list):
        return [problem for number, item in enumerate(value) for problem in _not_understood(item, f"{path}{number}.")]
    if type(value).__name__ == "UnparsedObject":
        return [f"{path.rstrip('.') or 'it'} fits none of the models"]
    # A model keeps its fields in a dictionary, those that it does not know as well. One that may be any of several
    # models has none of its own, but the one that fitted.
    inside = vars(value) if hasattr(value, "__dict__") else {}
    problems = [problem for one in inside.get("_composed_instances", ()) for problem in _not_understood(one, path)]
    for key, item in inside.get("_data_store", {}).items():
        if key not in value.openapi_types:
            problems.append(f"{path}{key} is in none of the models")
        problems += _not_understood(item, f"{path}{key}.")
    if inside.get("_unparsed") and not problems:
        problems.append(f"{path.rstrip('.') or 'it'} fits none of the models")
    return problems
