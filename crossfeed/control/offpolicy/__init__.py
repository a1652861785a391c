"""What another policy would have earned, from logs of the one that ran; refused where logs cannot tell."""
