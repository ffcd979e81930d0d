"""Errors that others published for the same data, |m - Y| / |Y - 7| over all cells.

Stored in the repository `yeungyh/cklemap` (Yeung, Barajas-Solano & Tartakovsky) for ten sets of 100
values and 323 exact heads on 1,475 cells. A Gaussian process sees the values alone; CKL-MAP is the
mode over 1,000 Karhunen-Loeve terms with a penalty on jumps between cells. For fewer values means
over the ten sets are known.
"""

BY_SET = {
    "gp-published": (
        *(0.5303, 0.5647, 0.5687, 0.6142, 0.4886),
        *(0.6565, 0.5865, 0.5351, 0.5419, 0.5183),
    ),
    "ckl-map-published": (
        *(0.3176, 0.3364, 0.3358, 0.3033, 0.3425),
        *(0.3490, 0.3193, 0.3108, 0.3206, 0.3364),
    ),
}
"""With 100 values."""

MEANS = {
    "gp-published": {25: 0.787, 50: 0.676, 100: 0.560},
    "ckl-map-published": {25: 0.417, 50: 0.378, 100: 0.327},
}
"""Over ten sets, by the number of values."""
