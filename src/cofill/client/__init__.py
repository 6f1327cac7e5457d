"""A client of the server: `Client`, and `AsyncClient` for programs that do many things at once.

    from cofill.client import Client

    with Client("http://127.0.0.1:8000", key="...") as client:
        client.put_ratings("ann", {1: 4.5})
        for entry in client.recommend("ann", n=5, where={"genres": "Comedy"}).items:
            print(entry.title, entry.score)

calls -> messages        one function for each route: what is sent, and what comes back
transport -> retries     how it is sent: keys, ids of requests, problems as exceptions, waits and tries again

It needs `pip install 'cofill[client]'`, and imports neither the models nor what they are made of.
"""

from cofill.client.client import AsyncClient, Client
from cofill.client.transport import RefusedError, UnreachableError

__all__ = ["AsyncClient", "Client", "RefusedError", "UnreachableError"]
