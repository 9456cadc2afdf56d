"""The probe in generated worlds whose true rules are known (`tests/worlds`)."""
