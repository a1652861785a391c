"""What both networks are built of: attention, blocks, dropout, instance normalisation, packed tokens."""
