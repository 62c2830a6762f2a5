"""What is served as SGLang: its modules, names and backends, as sglrun has them."""
