"""Relations, expressions and private blocks as DuckDB SQL, printed from our own tree."""
