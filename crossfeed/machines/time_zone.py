"""Time zones by their names in the tz database."""

import difflib
from zoneinfo import available_timezones

from crossfeed.errors import ConfigError


def check_zone(zone: str) -> None:
    """Refuse what is no time zone, with the nearest name that is one."""
    if zone in (known := available_timezones()):
        return
    near = difflib.get_close_matches(zone, sorted(known), n=2, cutoff=0.4)
    raise ConfigError(
        f"There is no time zone '{zone}'" + (f"; did you mean {' or '.join(near)}?" if near else "."),
        expected="a name such as Europe/Berlin, America/Chicago or UTC",
    )
