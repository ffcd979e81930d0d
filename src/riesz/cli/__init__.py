"""The `riesz` command: one module a command."""
