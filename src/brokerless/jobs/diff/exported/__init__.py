"""Tables that ``export`` wrote as one side of a comparison: directories of Parquet files, Iceberg and Delta."""
