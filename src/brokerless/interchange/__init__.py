"""Files of other formats: JSON Lines, Parquet, directories with Hive's paths."""
