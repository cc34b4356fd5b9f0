"""Operations for the owner alone: check the policy against the data, and tune it."""
