"""What is served now: the model, the database that it follows, and its export."""
