"""The door: from a problem and an engine to a posterior that has been checked."""
