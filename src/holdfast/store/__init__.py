"""Durable states: immutable files of named arrays, listed in numbered manifests."""
