"""What a command chooses for its whole process; a library may not."""


def use_float64() -> None:
    """Exact solves need it."""
    import jax

    jax.config.update("jax_enable_x64", True)


def compile_quickly() -> None:
    """For commands that evaluate everything once or twice."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)


def progress_on_error_stream() -> None:
    """Bars belong on the error stream, so that output can be piped."""
    import rich

    rich.reconfigure(stderr=True)
