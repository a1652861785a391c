"""Beside the machine: live sources, the recorder, and whether the forecast may be believed now."""
