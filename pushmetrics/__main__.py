"""``python -m pushmetrics``: the command line by another name."""

from .cli import main

if __name__ == "__main__":
    main()
