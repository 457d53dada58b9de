"""The steps that every Python library goes through. A library is three functions and `make`."""

import os
import socket
import threading

PORTS = [int(port) for port in os.environ["WIRE_NODES"].split(",")]
NODES = [f"n{nth + 1}" for nth in range(len(PORTS))]
LEASE = 10
# No step waits longer for a library.
MAX_WAIT = 8

orders = socket.create_connection(("127.0.0.1", int(os.environ["WIRE_CONTROL"]))).makefile("rw")


def order(*words):
    orders.write(" ".join(words) + "\n")
    orders.flush()
    assert orders.readline() == "done\n"


def outcome(call):
    try:
        returned = call()
    except Exception as error:
        return f"raised {type(error).__name__}"
    return {True: "granted", False: "refused", None: "returned"}.get(returned, "granted")


def result(name, call):
    """Calls the library and reports what it returned, at the latest after MAX_WAIT."""
    order("start")
    said = []
    thread = threading.Thread(target=lambda: said.append(outcome(call)), daemon=True)
    thread.start()
    thread.join(MAX_WAIT)
    order("result", f"{name}: {said[0] if said else 'no result'}")
    return said


def drive(library, key="job"):
    """`library` has make, acquire (bounded retries), release, and extend unless it has none."""

    def step(what):
        order("fresh")
        order("step", what)
        return library.make()

    lock = step("acquire and release, twice by the same object")
    for _ in range(2):
        result("acquire", lambda: library.acquire(lock))
        result("release", lambda: library.release(lock))

    lock = step("acquire while another client holds the lock")
    order("other", key, *NODES)
    result("acquire", lambda: library.acquire(lock))

    if hasattr(library, "extend"):
        extends(library, key, step)

    lock = step("release after the lock expired and another client took it")
    result("acquire", lambda: library.acquire(lock))
    order("other", key, *NODES)
    result("release", lambda: library.release(lock))

    lock = step("acquire, and a majority's replies are lost")
    order("lose", *NODES[: len(NODES) // 2 + 1])
    result("acquire", lambda: library.acquire(lock))
    result("release", lambda: library.release(lock))

    lock = step("release, and a majority's replies are lost")
    result("acquire", lambda: library.acquire(lock))
    order("lose", *NODES[: len(NODES) // 2 + 1])
    result("release", lambda: library.release(lock))

    if len(NODES) > 1:
        lock = step("acquire while one node is dead")
        order("dead", "n3")
        said = result("acquire", lambda: library.acquire(lock))
        in_time = bool(said)
        if in_time:
            result("release", lambda: library.release(lock))
        order("alive", "n3")
        if said and not in_time:
            order("late", f"acquire: {said[0]}")

        lock = step("acquire while another client holds a majority")
        order("other", key, "n2", "n3")
        result("acquire", lambda: library.acquire(lock))

    lock = step("acquire while one node never replies")
    order("silent", NODES[-1])
    result("acquire", lambda: library.acquire(lock))
    order("fresh")


def extends(library, key, step):
    lock = step("extend")
    result("acquire", lambda: library.acquire(lock))
    result("extend", lambda: library.extend(lock))

    lock = step("extend, and a majority's replies are lost")
    result("acquire", lambda: library.acquire(lock))
    order("lose", *NODES[: len(NODES) // 2 + 1])
    result("extend", lambda: library.extend(lock))

    if len(NODES) > 1:
        lock = step("extend after one node lost the key")
        result("acquire", lambda: library.acquire(lock))
        order("gone", key, "n3")
        result("extend", lambda: library.extend(lock))

    lock = step("extend after the lock expired")
    result("acquire", lambda: library.acquire(lock))
    order("gone", key, *NODES)
    result("extend", lambda: library.extend(lock))

    lock = step("extend after another client took a majority")
    result("acquire", lambda: library.acquire(lock))
    order("other", key, *NODES[-(len(NODES) // 2 + 1) :])
    result("extend", lambda: library.extend(lock))
