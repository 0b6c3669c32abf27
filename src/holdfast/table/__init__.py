"""Tables as codes: schemas, readers, encoding, changes, row ids and keys."""
