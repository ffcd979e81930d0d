"""The engine `nuts`: exact solves and the No-U-Turn sampler."""
