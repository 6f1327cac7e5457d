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
database.py          live ratings, events, descriptions, with tables.py, event_log.py, wakeup.py, disk.py, read_only.py
export_folder.py     all of that in a folder; live_export.py: ratings alone; next_training.py: into the next training
split.py             which of several models answers whom; kept_models.py: the one before; availability.py: hidden items
batch_pace.py        how long a batch will take; logs.py, request_ids.py, cross_origin.py: beside the guard
problem_types.py     the kinds of problems; openapi_document.py: what is published; rule_messages.py: rules of lists
listening.py         the socket, opened and closed without a loss
metrics.py           figures for Prometheus
settings.py          every setting, declared once

Every process has the model in memory. What is written goes to the database first, and every process takes in what it
has not seen yet before it answers.
"""
