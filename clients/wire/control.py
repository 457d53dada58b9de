"""The recorder's side of a step: a library's script orders faults here and reports its results."""

import socket
import time

import normal

QUIET = 0.15
MAX_WAIT = 4.0
# Clients wait up to 2 s before they connect again.
LATE = 3.0


class Control:
    def __init__(self, proxies, log, form):
        self.proxies, self.log, self.form = proxies, log, form
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.said, self.started = [], None

    def follow(self, child):
        """Obeys the script of a library until it ends: the lines of the recording."""
        self.listener.settimeout(1)
        while True:
            try:
                connection, _ = self.listener.accept()
                break
            except TimeoutError:
                if child.poll() is not None:
                    return self.said
        with connection, connection.makefile("rw") as orders:
            for line in orders:
                verb, _, rest = line.strip().partition(" ")
                getattr(self, verb)(rest)
                orders.write("done\n")
                orders.flush()
        return self.said

    def step(self, what):
        self.settle()
        self.form.next_step()
        self.said += ["", f"step {self.form.step}: {what}"]
        self.log.take()

    def start(self, _):
        """The call of the library begins now."""
        self.started = time.monotonic()

    def result(self, what):
        took = round((time.monotonic() - self.started) * 100) * 10
        self.settle()
        self.said += normal.lines(self.form, self.log.take())
        self.said.append(f"  = {what} after {took} ms")

    def late(self, what):
        """A call that had no result when its step ended has one now."""
        self.said.append(f"  = {what} at last")

    def settle(self):
        """Waits until nothing is under way: libraries clean up behind the caller's back."""
        until = time.monotonic() + MAX_WAIT
        while time.monotonic() < until:
            time.sleep(0.02)
            if time.monotonic() - self.log.moved > QUIET:
                return

    def note(self, what):
        self.said += normal.lines(self.form, self.log.take())
        self.said.append(f"  # {what}")

    def fresh(self, _):
        """Nothing is broken, and no node has a key."""
        for one in self.proxies:
            one.heal()
        self.settle()
        for one in self.proxies:
            ask(one, "FLUSHALL")
        self.log.take()

    def other(self, words):
        """The key of each node named holds another client's value."""
        key, *names = words.split()
        for one in self.named(names):
            ask(one, "SET", key, "other", "PX", "60000")
        self.note(f"another client holds the key on {' '.join(names)}")

    def gone(self, words):
        key, *names = words.split()
        for one in self.named(names):
            ask(one, "DEL", key)
        self.note(f"the key is gone on {' '.join(names)}")

    def lose(self, names):
        for one in self.named(names.split()):
            one.to_lose = 1
        self.note(f"the next reply of {names} is lost")

    def silent(self, names):
        for one in self.named(names.split()):
            one.silent = True
        self.note(f"{names} executes and never replies")

    def dead(self, names):
        for one in self.named(names.split()):
            one.refuse()
        self.note(f"{names} refuses connections")

    def alive(self, names):
        """The nodes accept connections again; what was meant for them may arrive late."""
        for one in self.named(names.split()):
            one.heal()
        self.note(f"{names} accepts connections again")
        time.sleep(LATE)
        self.settle()
        self.said += normal.lines(self.form, self.log.take())

    def named(self, names):
        return [one for one in self.proxies if one.name in names]


def ask(node, *words):
    """A request to the node itself: no proxy sees it."""
    parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    with socket.create_connection(node.upstream) as connection:
        connection.sendall(f"*{len(words)}\r\n{parts}".encode())
        connection.recv(4096)
