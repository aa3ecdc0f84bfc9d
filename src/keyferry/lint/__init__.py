"""What is wrong with a config, and what is legal but surely wrong: all of it, with positions and stable codes."""
