"""Compiling: a program as a plan of requests, and running that plan."""
