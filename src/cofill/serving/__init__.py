"""The server: a model behind HTTP that follows new ratings at once.

    request -> guard (host, key, rate, size, time) -> route -> LiveModel <- Store <- SQLite or PostgreSQL
                                                       |
                                                     answer

`app.py` puts the application together, `running.py` runs it in one process, `workers.py` in several. Every process has
the model in memory; what is written goes to the database first, and every process takes in what it has not seen yet
before it answers.
"""
