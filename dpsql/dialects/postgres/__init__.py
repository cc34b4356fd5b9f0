"""How PostgreSQL divides texts into words and calls columns."""
