"""``spark.readStream``: what new records there are, and the readers that Spark 4.1 and 4.2 ask for them."""
