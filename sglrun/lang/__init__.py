"""The language: what a program is made of.

Rule: no I/O, no threads, no backends.
"""
