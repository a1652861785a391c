"""How gradients move weights: optimiser, schedules, moving averages, and all of it in one pass on a GPU."""
