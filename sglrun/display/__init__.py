"""The display: what people see of a run.

Rule: sees results and summaries, never the executor; nothing here may stop a run.
"""
