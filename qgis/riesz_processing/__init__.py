"""A Processing provider that hands layers to the command `riesz`, and brings back maps."""


def classFactory(iface):
    """The plugin; QGIS is imported no sooner, so that commands can be tested without it."""
    from riesz_processing.plugin import RieszPlugin  # noqa: PLC0415

    return RieszPlugin(iface)
