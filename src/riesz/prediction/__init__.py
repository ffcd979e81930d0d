"""Quantities under a posterior, at points or on a grid."""
