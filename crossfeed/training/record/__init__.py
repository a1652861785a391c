"""What a run leaves behind: its folder, states to go on from, history, diary and summary."""
