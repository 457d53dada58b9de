"""rslock (Rust): a program of its own obeys the words that this script sends."""

import os
import subprocess

from steps import PORTS, drive

nodes = [f"redis://127.0.0.1:{port}" for port in PORTS]
program = subprocess.Popen(
    [os.environ["WIRE_RSLOCK"], *nodes],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    bufsize=1,
)


def call(word):
    program.stdin.write(f"{word}\n")
    said = program.stdout.readline().split()
    if said[0] == "raised":
        raise type(said[1], (Exception,), {})
    return {"granted": True, "returned": None}[said[0]]


class Library:
    def make(self):
        return None

    def acquire(self, _):
        return call("acquire")

    def extend(self, _):
        return call("extend")

    def release(self, _):
        return call("release")


drive(Library())
program.kill()
