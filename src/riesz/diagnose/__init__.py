"""Checks that users can run on their own problems."""

from riesz.diagnose.taylor import TaylorTest, taylor_test

__all__ = ["TaylorTest", "taylor_test"]
