"""What the error of meshes and steps does to intervals, and what correcting it brings."""
