"""The engine `reduced`: chains by a reduced equation, weighed by exact solves."""
