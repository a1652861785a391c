"""What a study wrote down: its ledger, its runs and their outcomes, and what follows from them; read without torch."""
