"""Engines: ways from an inverse problem to a posterior, one folder each."""
