"""`pushmetrics doctor`: what a program started here would push, to whom, and whether anybody takes it.

``environment`` reads the settings as the library does, ``agent`` tries the address (``udp``, ``unix``), ``program``
looks at the limits that a module makes, and ``cost`` counts custom metrics. Each returns what it found as data,
``finding``; ``examination`` puts it together, and ``report`` shows it. Only the last one needs rich.
"""
