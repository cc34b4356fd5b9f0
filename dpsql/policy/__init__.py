"""The owner's policy file: dpsql.toml to Policy, drafted by init, verified by check."""
