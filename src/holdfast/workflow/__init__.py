"""Decisions about rules, baselines, masks, alerts and history."""
