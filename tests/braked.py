"""The `riesz` command with a pause before each checkpoint: there is time to stop it on any machine.

A shell that starts tests in the background lets them ignore SIGINT, and all their children: here
it is heeded.
"""

import signal
import time

from riesz.cli.main import main
from riesz.io.store.checkpoint import Checkpoint

SECONDS = 0.25

keep = Checkpoint.keep


def keep_slowly(self, stage, state):
    time.sleep(SECONDS)
    keep(self, stage, state)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Checkpoint.keep = keep_slowly
    main()
