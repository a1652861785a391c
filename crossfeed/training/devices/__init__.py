"""How a step is run on the machine at hand: number format, captured graphs, several devices."""
