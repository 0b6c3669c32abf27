"""Connectors for real: a Kafka broker, a Delta table, a PostgreSQL server. Run by `make test-connectors`."""
