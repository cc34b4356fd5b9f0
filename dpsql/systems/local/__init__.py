"""The local model where people answer: what they tell is drawn before anybody sees it."""
