"""Each offset once, as a consumer gets it: of batches and of segments that overlap, one has an offset."""
