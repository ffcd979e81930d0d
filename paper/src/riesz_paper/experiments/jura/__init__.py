"""Heavy metals in the Swiss Jura: the paper's Table 1."""
