"""Durable states: immutable files of named arrays and a numbered manifest."""
