"""The server: a model behind HTTP that follows new ratings at once.

    request -> guard (host, key, rate, size, time) -> route -> LiveModel <- Store <- SQLite or PostgreSQL
                                                       |
                                                     answer

processes.py   the application in one process or in several; http_protocol.py: how it reads HTTP
app.py         all of it put together
api/           guard.py, keys.py: what stands before every route; requests.py, rules.py: how messages are read
               lists.py, shelves.py, catalogue.py, users.py, model.py, page.py: the routes; problems.py; openapi.py
ops/           the log, figures for Prometheus, retraining every night
live/          model.py: the model that answers now; served.py: one model and what belongs to it; search.py
               store.py, tables.py, events.py, tombstones.py: live ratings, events and descriptions in the database
               export.py: all of that in a folder, and into the next training; kept.py: the model before
settings.py    every setting, declared once
page/          the page; reference/: the reference of the API. What is answered is declared in `cofill.client.messages`.

Every process has the model in memory. What is written goes to the database first, and every process takes in what it
has not seen yet before it answers.
"""
