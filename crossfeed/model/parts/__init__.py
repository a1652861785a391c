"""What both networks are built of: attention, blocks, instance normalisation."""
