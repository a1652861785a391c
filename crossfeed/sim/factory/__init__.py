"""A fleet of simulated machines to learn from: who they are, what they make, who stands at them, what they show."""
