"""Checks whole tables of any size on Spark. Only counts and listed violations pass through the driver."""
