"""Everything a user would pick instead of the world model, on the same windows, with the same care."""

# The world model's own arms in a comparison.
ARMS = {
    "paper": "the method exactly as the paper states it",
    "paper-revin": "the same with pure instance normalisation, the paper's ablation",
    "mended": "the paper's network with the errors found since mended",
    "crossfeed": "the default preset",
    "crossfeed+fleet": "the default preset as it ships: begun with the model that already knows machines",
}
