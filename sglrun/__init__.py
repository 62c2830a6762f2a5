"""sglrun: run an LLM program over every row of a JSONL file."""
