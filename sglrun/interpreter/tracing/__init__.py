"""Tracing: what a program says and does, as far as it is known before it runs."""
