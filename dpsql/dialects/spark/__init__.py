"""Total expressions and private blocks as the SQL of Spark and of Sail."""
