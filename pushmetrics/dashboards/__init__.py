"""The templates of dashboards and monitors: loaded, rendered, checked, evaluated and pushed.

A template is what Datadog's API takes, as plain dictionaries; nothing here makes classes of it.
"""

from __future__ import annotations

from .templates import Template, load, load_all, load_file, names

__all__ = ["Template", "load", "load_all", "load_file", "names"]
