"""The Postgres door: a server that speaks the Postgres wire protocol, version 3."""
