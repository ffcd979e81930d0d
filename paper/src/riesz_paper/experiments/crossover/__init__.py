"""Where a density without solves wins over exact solves, and where it does not."""
