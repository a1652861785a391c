"""The protocol as software: candidates, source-only search, score, confirmation, lock, vault, ledger."""
