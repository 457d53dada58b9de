"""The normal form of a recording: the same library gives the same lines, whatever it draws."""

import hashlib
import re

from scripts import SCRIPTS

# Texts that are not drawn by chance: names of keys, the other client's value, and numbers.
FIXED = re.compile(r"-?\d+(\.\d+)?|other|(lock-signal:|lock:|mutex:|redlock:)*job|[A-Za-z]{1,9}")
GAP = re.compile(r"^ +(\+\d+ ms)?  | after \d+ ms$")


class Form:
    """What a recording has seen so far: scripts by use, random values in order of appearance.

    `<token-3.1>` is the first token of the third step: tries that differ in number do not move the
    names of later steps, and a token that comes back in a later step keeps its name.
    """

    def __init__(self):
        self.tokens, self.scripts = {}, {}
        self.step, self.in_step = 0, 0

    def next_step(self):
        self.step, self.in_step = self.step + 1, 0

    def words(self, words):
        command = words[0].upper()
        if command in ("EVAL", "EVALSHA"):
            digest = words[1] if command == "EVALSHA" else sha1(words[1])
            return [command, self.script(digest), *map(self.value, words[2:])]
        if command == "SCRIPT":
            sub = words[1].upper()
            digests = [sha1(word) if sub == "LOAD" else word for word in words[2:]]
            return [command, sub, *map(self.script, digests)]
        return [command, *map(self.value, words[1:])]

    def script(self, digest):
        self.scripts[digest] = SCRIPTS.get(digest, (digest, "is not in scripts.py"))
        return f"script:{self.scripts[digest][0]}"

    def value(self, word):
        if FIXED.fullmatch(word):
            return word
        if word not in self.tokens:
            self.in_step += 1
            self.tokens[word] = f"<token-{self.step}.{self.in_step}>"
        return self.tokens[word]

    def reply(self, reply):
        for word, token in self.tokens.items():
            reply = reply.replace(word, token)
        for digest, (name, _) in self.scripts.items():
            reply = reply.replace(digest, f"script:{name}")
        return re.sub(r"^(NOSCRIPT|ERR)\b.*?(, lost.*|, never.*)?$", r"\1\2", reply)

    def kinds(self):
        """What the random values look like."""
        return sorted({kind(word) for word in self.tokens})


def sha1(body):
    return hashlib.sha1(body.encode("latin-1")).hexdigest()


def kind(word):
    shapes = {
        "a UUID": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        f"{len(word)} hex digits": r"[0-9a-f]+",
        f"{len(word)} characters of base64": r"([A-Za-z0-9+/]{4})*[A-Za-z0-9+/=]{4}",
        f"{len(word)} letters and digits": r"[A-Za-z0-9]+",
    }
    return next(
        (name for name, shape in shapes.items() if re.fullmatch(shape, word)),
        f"{len(word)} bytes",
    )


def bursts(requests):
    """Requests that were all sent before the first of their replies, in the order of the nodes."""
    done = []
    for request in sorted(requests, key=lambda request: request.at):
        first = min((one.answered or float("inf") for one in done[-1]), default=0) if done else 0
        if request.at < first:
            done[-1].append(request)
        else:
            done.append([request])
    return [sorted(burst, key=lambda request: (request.node, request.at)) for burst in done]


def lines(form, requests):
    """One line a request: the gap since the previous burst, node, command, reply."""
    said, previous = [], None
    for burst in bursts(requests):
        start = min(request.at for request in burst)
        gap = "" if previous is None else f"+{round((start - previous) * 100) * 10} ms"
        for request in burst:
            words = " ".join(form.words(request.words))
            said.append(f"  {gap:>8}  {request.node}  {words} -> {form.reply(str(request.reply))}")
            gap = ""
        previous = start
    return said


def without_gaps(line):
    """A line as recordings are compared: delays are drawn by chance."""
    return GAP.sub("", line)
