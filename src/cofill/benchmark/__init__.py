"""Speed and memory, always as a ratio to something else measured in the same run."""
