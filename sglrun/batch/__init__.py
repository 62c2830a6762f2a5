"""The batch: running a program over many rows, durably."""
