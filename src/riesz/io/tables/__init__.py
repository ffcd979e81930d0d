"""Tables of text cells, from CSV files, map layers and NetCDF."""
