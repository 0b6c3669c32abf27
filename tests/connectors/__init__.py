"""Connectors for real: Kafka, Delta, PostgreSQL, S3. Run by `make test-connectors`."""
