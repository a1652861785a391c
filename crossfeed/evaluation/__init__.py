"""Measuring forecasts honestly: one interface for everything that forecasts, scored per run, never per window."""
