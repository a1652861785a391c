"""What is measured on windows that never train: losses, forecast errors, floors, health, calibration."""

# One for everybody, for ever: it belongs to the protocol, not to any model.
PROTOCOL_SEED = 20260820
# A model whose error grows by less than this factor under shuffled commands hardly listens to them.
WEAK_COMMAND_USE = 1.02
