"""Rules on Spark: the rows stay in DataFrames and files of Spark, and only numbers come to the driver."""
