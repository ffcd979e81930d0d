"""Domains and their decomposition into simplices."""
