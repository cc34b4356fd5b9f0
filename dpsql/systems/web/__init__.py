"""web: the same proxy over HTTP, for programs: a JSON interface next to the Postgres port."""
