"""From forecasts to decisions: which overrides a program should run under, and when to leave it alone.

Nothing here is ever sent to a machine: what comes out are files for a person.
"""
