"""Mesh files: Gmsh, VTU, NumPy archives, and scikit-fem's meshes."""
