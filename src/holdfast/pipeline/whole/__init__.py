"""Checking whole tables on Spark, of any size: rows never pass through the driver, only counts and what is listed."""
