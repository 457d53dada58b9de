"""A proxy in front of one node: it notes each request with its reply, and loses replies on order.

It holds each reply for a moment. Requests that a library sends at once thus all arrive before the
first reply, and one that waits for the reply of the previous node arrives after it.
"""

import socket
import threading
import time

HOLD = 0.03

# To lose a reply to these is no test: they change nothing.
READS = {"GET", "EXISTS", "PTTL"}

# What a client sends to set up a connection says nothing about a lock.
SET_UP = {"HELLO", "AUTH", "CLIENT", "SELECT", "INFO", "COMMAND", "PING", "ECHO", "QUIT"}


class Request:
    """A request as it arrived; its reply is set when there is one."""

    def __init__(self, node, words):
        self.node, self.words = node, words
        self.at, self.answered, self.reply = time.monotonic(), None, None


class Log:
    """The requests of the current step, in order of arrival."""

    def __init__(self):
        self.lock = threading.Lock()
        self.requests = []
        self.moved = time.monotonic()

    def arrived(self, request):
        with self.lock:
            self.requests.append(request)
            self.moved = request.at

    def answer(self, request, reply):
        with self.lock:
            request.reply, request.answered = reply, time.monotonic()
            self.moved = request.answered

    def take(self):
        with self.lock:
            taken, self.requests = self.requests, []
            return taken


class Proxy:
    def __init__(self, name, upstream, log):
        self.name, self.upstream, self.log = name, upstream, log
        self.open, self.listener, self.port = set(), None, 0
        self.silent, self.to_lose = False, 0
        self.listen()

    def listen(self):
        if self.listener is None:
            self.listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
            self.port = self.listener.getsockname()[1]
            threading.Thread(target=self.accept, args=[self.listener], daemon=True).start()

    def refuse(self):
        """From now on connections are refused; those that exist are closed."""
        listener, self.listener = self.listener, None
        # Only `shutdown` wakes the thread that waits in accept.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        self.hang_up()

    def heal(self):
        if self.silent:
            self.hang_up()
        self.silent, self.to_lose = False, 0
        self.listen()

    def hang_up(self):
        for connection in list(self.open):
            close(connection)

    def accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def serve(self, connection):
        self.open.add(connection)
        try:
            with socket.create_connection(self.upstream) as node:
                self.relay(connection, connection.makefile("rb"), node, node.makefile("rb"))
        except (OSError, EOFError):
            pass
        finally:
            self.open.discard(connection)
            close(connection)

    def relay(self, connection, requests, node, replies):
        while True:
            raw, words = read(requests)
            request = Request(self.name, [text(word) for word in words])
            noted = request.words[0].upper() not in SET_UP
            if noted:
                self.log.arrived(request)
            node.sendall(raw)
            raw, reply = read(replies)
            if not noted:
                connection.sendall(raw)
                continue
            time.sleep(HOLD)
            if self.silent:
                self.log.answer(request, f"{shown(reply)}, never delivered")
                continue
            if self.to_lose > 0 and changes(request, reply):
                self.to_lose -= 1
                self.log.answer(request, f"{shown(reply)}, lost: the connection closes")
                return
            self.log.answer(request, shown(reply))
            connection.sendall(raw)


def changes(request, reply):
    return request.words[0].upper() not in READS and not str(reply).startswith("NOSCRIPT")


def close(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()


def read(stream):
    """The next value of RESP: its bytes, and what they stand for."""
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError
    kind, rest = line[:1], line[1:-2]
    if kind in b"$=" and int(rest) >= 0:
        body = stream.read(int(rest) + 2)
        return line + body, body[:-2]
    if kind in b"*~>%" and int(rest) >= 0:
        parts = [read(stream) for _ in range(int(rest) * (2 if kind == b"%" else 1))]
        return line + b"".join(raw for raw, _ in parts), [value for _, value in parts]
    if kind in b"$*_":
        return line, None
    if kind == b":":
        return line, int(rest)
    return line, rest.decode("utf-8", "replace")


def text(word):
    """Some tokens are raw bytes: a character each, so that lengths stay."""
    return word.decode("latin-1") if isinstance(word, bytes) else str(word)


def shown(reply):
    if reply is None:
        return "nil"
    if isinstance(reply, list):
        return "[" + " ".join(shown(part) for part in reply) + "]"
    return text(reply)
