"""NC code: parse Siemens 840D and ISO G-code, plan the motion, give commands at any rate."""
