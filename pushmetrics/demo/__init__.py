"""`pushmetrics demo`: a little service under load, and a picture of what its limits push.

The example to copy is in three modules, each with a limit of its own: ``driver``, ``model_server`` and ``verifier``.
The stage around them: ``program`` puts everything together, ``listener`` stands in for an Agent, ``pushed`` watches
what goes to a real one, ``readings`` keeps what was seen, ``plain`` draws it, ``comparison`` judges it.

Importing this package imports nothing; its modules need the extra ``cli``.
"""
