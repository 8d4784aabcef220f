"""What each Python that a command of ``pushmetrics run`` starts does first: wait for modules to be imported.

Its directory is the first on PYTHONPATH, so Python imports this file at its start. It takes itself off ``sys.path``
and imports the sitecustomize that it stands before, if there is one, so that the program sees what it sees without.

Any Python on the machine may come here, also a very old one: the syntax is that of all of them.
"""

import os
import sys

directory = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs more than all of this
try:
    if sys.version_info >= (3, 11):  # noqa: UP036 - the program's Python may be older than ours
        __import__("pushmetrics_hooks").install(os.environ)
except Exception as error:  # noqa: BLE001 - nothing that goes wrong here may end the program
    sys.stderr.write("pushmetrics: not loaded: %r. The program runs on without it.\n" % error)  # noqa: UP031 - for any Python

sys.path[:] = [place for place in sys.path if os.path.abspath(place) != directory]  # noqa: PTH100 - as above
# Python passes over the ImportError where there is no other one, and reports any other error as it does without us.
sys.modules.pop("sitecustomize", None)
__import__("sitecustomize")
