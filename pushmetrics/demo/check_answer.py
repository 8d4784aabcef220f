"""A program of its own: ends with status RIGHT if the answer to a question is right, and with WRONG if not.

    python check_answer.py "6 * 7" 42 0.1

The last argument is how many seconds the check takes. Uses nothing but the standard library.
"""

import signal
import sys
import time

RIGHT = 0
WRONG = 10  # Not 1: that is how Python ends after an exception.


def main(question: str, answer: str, seconds: str) -> int:
    """Check one answer."""
    # Whoever ends the demo with all its processes, as a terminal or systemd may, means the demo, which ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    left, right = question.split(" * ")
    time.sleep(float(seconds))
    return RIGHT if int(left) * int(right) == int(answer) else WRONG


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
