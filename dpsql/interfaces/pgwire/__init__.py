"""The Postgres interface: a server for the Postgres wire protocol, version 3."""
