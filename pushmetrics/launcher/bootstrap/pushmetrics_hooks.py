"""Post-import hooks: calls integrations when the modules that they are for have been imported.

This runs at the start of every Python process of a command of ``pushmetrics run``, whatever that process is for and
whatever its environment holds. So it imports nothing that a bare interpreter has not loaded already, and touches
nothing of the program, until a hooked module is imported.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

HOOKS_VARIABLE = "PUSHMETRICS_RUN_HOOKS"
"""``hooked.module=package.module:function``, separated by blanks."""

PATH_VARIABLE = "PUSHMETRICS_RUN_PATH"
"""The directories that hold pushmetrics and what it needs, separated as in PATH."""


def install(environ: Mapping[str, str]) -> None:
    """Begin to wait for the modules that the variable names. Called once, when the interpreter starts."""
    targets: dict[str, list[str]] = {}
    for hook in environ.get(HOOKS_VARIABLE, "").split():
        name, _, target = hook.partition("=")
        targets.setdefault(name, []).append(target)
    path = [place for place in environ.get(PATH_VARIABLE, "").split(os.pathsep) if place]
    hooks = Hooks(targets, path)
    sys.meta_path.insert(0, hooks)
    for name in targets:
        if name in sys.modules:  # By a .pth file, which Python reads earlier.
            hooks.call(name, sys.modules[name])


class Hooks:
    """A finder that has a hooked module found by the others, and its integrations called when it has been loaded.

    Args:
        targets: By the name of a hooked module, the functions that take it: ``"package.module:function"``.
        path: What is put last on ``sys.path`` before the first of them is imported: what the program has of its own
            comes first.
    """

    def __init__(self, targets: Mapping[str, Sequence[str]], path: Sequence[str]) -> None:
        self._targets = targets
        self._path = path
        self._finding: set[tuple[str, int]] = set()
        self._complained = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what another finder says of a hooked module, and None for any other."""
        if name not in self._targets:
            return None
        asked = name, get_ident()
        if asked in self._finding:  # By another finder of this kind, which asks all the others, too.
            return None
        self._finding.add(asked)
        try:
            spec = next(self._found(name, path, target), None)
        finally:
            self._finding.discard(asked)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = Loader(name, spec.loader, self)  # type: ignore[assignment]  # Not the abstract class, by its methods.
        return spec

    def _found(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> Iterator[ModuleSpec]:
        for finder in list(sys.meta_path):
            if finder is not self and (find_spec := getattr(finder, "find_spec", None)) is not None:
                spec = find_spec(name, path, target)
                if spec is not None:
                    yield spec

    def call(self, name: str, module: ModuleType) -> None:
        """Hand a hooked module to its integrations. What goes wrong is said once, and the program runs on."""
        sys.path.extend(place for place in self._path if place not in sys.path)
        for target in self._targets[name]:
            package, _, function = target.partition(":")
            try:
                __import__(package)
                getattr(sys.modules[package], function)(module)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - nothing that goes wrong here may end the program
                self._complain(target, error)

    def _complain(self, target: str, error: BaseException) -> None:
        if self._complained or sys.stderr is None:
            return
        self._complained = True
        try:
            what = repr(error)
        except Exception:  # noqa: BLE001 - as above
            what = type(error).__name__
        try:  # noqa: SIM105 - contextlib is not loaded yet
            sys.stderr.write(f"pushmetrics: {target} failed: {what}. The program runs on without it.\n")
        except Exception:  # noqa: BLE001, S110 - as above; whoever has closed standard error wants to hear nothing
            pass


class Loader:
    """Loads a hooked module with its own loader, puts that one back into its place, and calls the hooks."""

    def __init__(self, name: str, loader: Any, hooks: Hooks) -> None:
        self._name = name
        self._loader = loader
        self._hooks = hooks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # What `python -m`, inspect and importlib.resources ask a loader for.

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module to be filled, or None for the usual kind."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code, then what waits for it."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._hooks.call(self._name, module)
