"""The pipeline: rulebooks fed by streams of changes, on Spark."""
