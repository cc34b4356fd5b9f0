"""What only the owner may do: check the policy against the data, and tune it."""
