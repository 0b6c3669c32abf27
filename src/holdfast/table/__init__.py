"""Tables as integer codes: schemas, readers, encoding, changes, row ids and keys."""
