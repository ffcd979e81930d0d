"""Colours of methods in figures, by their role in a table."""

COLOURS = {
    "ours": "tab:blue",
    "paper-method": "tab:orange",
    "baseline": "0.4",
    "published": "tab:red",
}
