"""Where rows come from: kinds of logs, mappings of any table, and their way into one canonical table."""
