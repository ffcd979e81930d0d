"""Fits that are stopped after a few blocks, again and again, and go on from what was written."""

import equinox as eqx

from riesz.io.store.checkpoint import Checkpoint, read_checkpoint


class PowerCutError(Exception):
    """All work stops here."""


class StoppingCheckpoint(Checkpoint):
    """A checkpoint of any fit, the end of which comes after so many were written."""

    def __init__(self, path, blocks):
        super().__init__(path, seconds=0)
        self.header = {"fit": {}, "versions": {}}
        self.blocks = blocks
        if path.exists():
            header, arrays = read_checkpoint(path)
            self.read = {stage: (plain, arrays) for stage, plain in header["stages"].items()}

    def write(self):
        super().write()
        self.blocks -= 1
        if self.blocks == 0:
            raise PowerCutError


def stopped_and_resumed(fit, path, blocks=1):
    """The posterior in the end, and how often it was stopped before."""
    for stops in range(100):
        try:
            return fit(StoppingCheckpoint(path, blocks)), stops
        except PowerCutError:
            pass
    raise AssertionError("it never ended")


def check_same(posterior, other):
    """Every bit is the same."""
    assert eqx.tree_equal(posterior.distribution, other.distribution)
    assert eqx.tree_equal(posterior.states, other.states)
    assert eqx.tree_equal(posterior.history, other.history)
    assert posterior.notes == other.notes
