"""HTTP: what stands before every route, the routes with their messages, and problems."""
