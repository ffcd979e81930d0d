"""Conductivity and storage of aquifers from classic pumping tests and a slug test."""
