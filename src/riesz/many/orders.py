"""What a process is told of a fit that it is to do: plain values, which can be sent anywhere."""

from dataclasses import dataclass

from riesz.many.sites import FitSettings, Site


@dataclass(frozen=True)
class Order:
    """One fit, and when to give it up."""

    site: Site
    runs: str
    settings: FitSettings
    attempts: int  # of which the process may end before it counts as suspected
    reports: bool = True
    is_last: bool = False  # whether it fails then
    settles: bool = True  # whether its process may be made like that of `riesz fit`
