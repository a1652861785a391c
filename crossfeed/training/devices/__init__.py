"""How a step is run on the machine at hand, alone or on several devices, and what it costs there."""
