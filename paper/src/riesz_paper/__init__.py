"""The experiments of Tait & Damoulas (2020) and what they are compared with, done with Riesz."""
