"""The server: a model behind HTTP that follows new ratings at once.

    request -> guard (host, key, rate, size, time) -> route -> LiveModel <- Store <- SQLite or PostgreSQL
                                                       |
                                                     answer

app.py               all of it put together
server_processes.py  the application in one process or in several; http_protocol.py: how it reads HTTP
guard.py             what stands before every route; keys.py: the file of keys
routing.py           how a route is declared, with its right; request_messages.py: how its message is read
routes_*.py          the routes, each module with its queries, messages and replies; item_map.py: the map's
problems.py          whatever goes wrong, as RFC 9457 has it
live_model.py        the model that answers now; served_model.py: one model and what belongs to it; search.py
database.py          live ratings and descriptions; live_export.py: from there into the next training
metrics.py           figures for Prometheus
settings.py          every setting, declared once

Every process has the model in memory. What is written goes to the database first, and every process takes in what it
has not seen yet before it answers.
"""
