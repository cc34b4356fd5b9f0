"""The owner's file: dpsql.toml to Policy, drafted by init, verified by check."""
