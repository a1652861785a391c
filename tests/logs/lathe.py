"""The mapping of a lathe that logs two sensors and one command."""

SCHEMA = {
    "name": "lathe",
    "sensors": [
        {"name": "load", "quantity": "load", "unit": "%"},
        {"name": "power", "quantity": "power", "unit": "kW"},
    ],
    "commands": [{"name": "speed", "quantity": "rotational speed", "unit": "rpm"}],
}
MAPPING = {
    "machine": "lathe_3",
    "schema": SCHEMA,
    "time": {"column": "t", "unit": "ms"},
    "columns": [
        {"native": "Load", "channel": "load", "unit": "%", "valid": [0, 200]},
        {"native": "Power", "channel": "power", "unit": "W"},
        {"native": "n", "channel": "speed", "unit": "1/min"},
    ],
}
