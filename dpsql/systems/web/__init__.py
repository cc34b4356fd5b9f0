"""web: the same proxy over HTTP, for programs: a JSON interface beside the Postgres port."""
