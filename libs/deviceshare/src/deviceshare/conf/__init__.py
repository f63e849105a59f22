"""The configuration that Volcano's users already have, read as it stands."""
