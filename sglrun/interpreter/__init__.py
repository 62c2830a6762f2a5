"""The interpreter: running one program against a backend."""
