"""Whole problems at random, given to `auto` blindly, and judged by an independent reference."""
