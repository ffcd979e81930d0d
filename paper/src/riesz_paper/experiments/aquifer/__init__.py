"""The Snake River Plain aquifer: the paper's Table 2."""
