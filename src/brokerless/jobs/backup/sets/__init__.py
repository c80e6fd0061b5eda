"""Sets: each host of a broker stores what its node leads, and all of these parts are read as one snapshot."""
