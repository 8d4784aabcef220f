"""The table of integrations."""

from __future__ import annotations

from importlib import import_module

import pytest

from pushmetrics.integrations import HOOKS, Hook, all_hooks


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.module)
def test_each_target_is_a_function_that_can_be_imported_without_what_it_is_for(hook: Hook) -> None:
    module, _, function = hook.target.partition(":")

    assert callable(getattr(import_module(module), function))


def test_those_of_this_package_come_first() -> None:
    assert all_hooks()[: len(HOOKS)] == list(HOOKS)
