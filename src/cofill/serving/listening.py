"""The socket that a server listens at: opened, shared by processes, and closed without a loss.

A connection exists for the client as soon as the kernel has put it into the queue of the socket. Whoever closes the
socket resets those that are in the queue; so new ones are refused first, the queue is emptied, and then it is closed.
"""

import ctypes
import logging
import select
import socket
import struct
import sys

from cofill.errors import SettingsError
from cofill.serving.settings import ServingSettings

log = logging.getLogger("cofill.serving")

_BACKLOG = 2048
_SO_ATTACH_FILTER = 26  # of Linux; Python has no name for it
# A classic BPF program: load the byte of flags of the TCP header; if SYN is among them, drop the packet, else keep it.
_DROP_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))


def listen(settings: ServingSettings) -> socket.socket:
    """A listening socket that processes can share."""
    place = f"{settings.host}:{settings.port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _cannot_listen(place, error) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise _cannot_listen(place, error) from None
    listening.set_inheritable(True)
    return listening


def _cannot_listen(place: str, error: OSError) -> SettingsError:
    return SettingsError(f"{place}: cannot listen there: {error.strerror}; choose another --host or --port")


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if listening.family == socket.AF_INET6 else f"http://{host}:{port}"


def refuse_new(listening: socket.socket) -> None:
    """Let nobody new connect, in all processes that share the socket; those who are connecting still can.

    Their first packets are dropped, so they try again a second later: by then the socket is closed, and they are told
    so. Elsewhere than on Linux this does nothing, and whoever connects in the moment of closing is reset.
    """
    if sys.platform != "linux":
        return
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _DROP_SYN))
    try:
        listening.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(_DROP_SYN), ctypes.addressof(program))
        )
    except OSError as error:  # a kernel that does not let us
        log.warning("connections made in the moment of stopping may be reset: %s", error.strerror)


def is_readable(descriptor: int) -> bool:
    """Whether something waits there: a connection to be accepted, or data to be read."""
    looking = select.poll()
    looking.register(descriptor, select.POLLIN)
    return bool(looking.poll(0))
