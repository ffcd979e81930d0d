"""Models beside each other in a picture: by how much each foretells better than one of them."""

from matplotlib.figure import Figure

from riesz.comparison.results import BLOCKS, KRIGING, ONE, Comparison
from riesz.plot.figure import new_figure

SHOWN = {"log_density": "log-density of an observation", "crps": "CRPS"}


def comparison_figure(comparison: Comparison) -> Figure:
    """Paired differences from kriging, or from the first model, with 95 % intervals."""
    names = [one.name for one in comparison.models]
    rivals = [one.name for one in comparison.models if not one.is_physics]
    zero = next((name for name in rivals if name.startswith(KRIGING)), names[0])
    others = [name for name in reversed(names) if name != zero]
    ways = (ONE,) if comparison.block is None else (ONE, BLOCKS)
    figure, panels = new_figure(len(SHOWN), 1, width=4.6, height=1.4 + 0.45 * len(others))
    for axes, (score, label) in zip(panels, SHOWN.items(), strict=True):
        axes.axvline(0.0, color="0.6", linewidth=0.8)
        for shift, how, colour in zip((0.12, -0.12), ways, ("tab:gray", "tab:blue"), strict=False):
            pairs = [comparison.difference(name, zero, score=score, how=how) for name in others]
            means = [one.mean for one in pairs]
            bars = [
                [one.mean - one.low for one in pairs],
                [one.high - one.mean for one in pairs],
            ]
            heights = [row + shift for row in range(len(others))]
            axes.errorbar(
                means,
                heights,
                xerr=bars,
                fmt="o",
                markersize=4,
                color=colour,
                label=f"left out {how}",
            )
        axes.set_yticks(range(len(others)), others)
        axes.set(xlabel=f"{label}: better than {zero} by", ylim=(-0.6, len(others) - 0.4))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, frameon=False, loc="outside upper center", ncols=2)
    return figure
