"""From tables to a trained model: two stages, one step function, health every epoch, resume at any moment."""
