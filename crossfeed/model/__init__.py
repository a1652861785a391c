"""The network, its objectives, the two presets and the model file: Sections 3 and 4 of the paper as code."""
