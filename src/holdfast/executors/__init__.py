"""Where work runs. An executor runs pure functions on blocks and buckets and knows nothing of rules."""
