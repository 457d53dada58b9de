"""Records what real lock libraries send: one file a library in tests/wire.

    python3 clients/wire/record.py            # record again, print what differs from the files
    python3 clients/wire/record.py --write    # write the files
    python3 clients/wire/record.py redlock    # only libraries whose name contains this word
    python3 clients/wire/record.py --as-is    # with the packages and the program that are there

A proxy per node stands between the library and `lockstorm serve`. The library's script (the .py and
.mjs files here) does the steps of steps.py and steps.mjs and reports their results.
"""

import datetime
import difflib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import control  # noqa: E402
import normal  # noqa: E402
import proxy  # noqa: E402
import run  # noqa: E402

FILES = run.ROOT / "tests" / "wire"

# (name of the file, package, where it is from, program, script, nodes)
LIBRARIES = [
    ("redis-py", "redis", "PyPI", "python", "redis_py.py", 1),
    ("pottery", "pottery", "PyPI", "python", "pottery_redlock.py", 3),
    ("aioredlock", "aioredlock", "PyPI", "python", "aio_redlock.py", 3),
    ("redlock-py", "redlock-py", "PyPI", "python", "redlock_py.py", 3),
    ("python-redis-lock", "python-redis-lock", "PyPI", "python", "python_redis_lock.py", 1),
    ("node-redlock", "redlock", "npm", "node", "redlock5.mjs", 3),
    ("node-redlock", "redlock4", "npm", "node", "redlock4.mjs", 3),
    ("redis-semaphore-mutex", "redis-semaphore", "npm", "node", "mutex.mjs", 1),
    ("redis-semaphore-redlock", "redis-semaphore", "npm", "node", "redlock_mutex.mjs", 3),
    ("sesamecare-redlock", "@sesamecare-oss/redlock", "npm", "node", "sesamecare.mjs", 3),
    ("rslock", "rslock", "crates.io", "python", "rslock.py", 3),
]
RSLOCK = run.ENVIRONMENT / "rslock"


def prepare():
    run.prepare()
    build = ["cargo", "build", "--locked", "--quiet"]
    subprocess.run(build, cwd=run.ROOT, check=True)
    build += ["--target-dir", RSLOCK]
    subprocess.run(build, cwd=HERE / "rslock", check=True)


def version(package):
    if package != "rslock":
        return run.version(package).rsplit("@", 1)[-1]
    manifest = (HERE / "rslock" / "Cargo.toml").read_text()
    return re.search(r'rslock = .*"=([^"]+)"', manifest).group(1)


def record(program, script, nodes):
    """The lines of a recording, and the form that they have seen."""
    serve = run.Serve("single") if nodes == 1 else run.Serve("independent")
    log, form = proxy.Log(), normal.Form()
    upstreams = [address.rsplit(":", 1) for address in serve.nodes[:nodes]]
    proxies = [
        proxy.Proxy(f"n{nth + 1}", (host, int(port)), log)
        for nth, (host, port) in enumerate(upstreams)
    ]
    steps = control.Control(proxies, log, form)
    environment = dict(
        os.environ,
        WIRE_NODES=",".join(str(one.port) for one in proxies),
        WIRE_CONTROL=str(steps.port),
        WIRE_RSLOCK=str(RSLOCK / "debug" / "wire-rslock"),
    )
    if program == "python":
        command = [run.ENVIRONMENT / "python" / "bin" / "python", HERE / script]
    else:
        command = ["node", run.ENVIRONMENT / "node" / "wire" / script]
    errors = open(run.ENVIRONMENT / f"{script}.log", "w")
    child = subprocess.Popen(command, env=environment, stdout=errors, stderr=errors)
    said = steps.follow(child)
    serve.end()
    if child.wait(timeout=30) != 0:
        sys.exit(f"{script} failed: see {errors.name}")
    return said, form


def head(label, package, source, nodes, form):
    today = datetime.date.today().isoformat()
    yield f"# {label}: package {package} from {source}, recorded {today}"
    yield f"# Server: lockstorm serve, {nodes} node{'s' if nodes > 1 else ''}; a proxy before each."
    yield "# Every reply is held for 30 ms: what has no gap was sent before the first reply came."
    yield f"# Left out: what sets up a connection ({', '.join(sorted(proxy.SET_UP))})."
    yield f"# Tokens: {', '.join(form.kinds())}"
    for digest, (script, what) in sorted(form.scripts.items(), key=lambda item: item[1]):
        yield f"# script:{script} ({digest}) {what}"


def compare(path, said):
    """Prints the lines that differ, without the gaps and the date; says whether any do."""
    kept = path.read_text().splitlines() if path.exists() else []
    sides = [[normal.without_gaps(line) for line in lines[1:]] for lines in (kept, said)]
    difference = list(difflib.unified_diff(*sides, str(path.name), "recorded now", lineterm=""))
    print("\n".join(difference) if difference else f"{path.name}: the same")
    return bool(difference)


def main(words):
    write = "--write" in words
    wanted = [word for word in words if not word.startswith("--")]
    if "--as-is" in words:
        run.copy_scripts()
    else:
        prepare()
    differs = False
    for name, package, source, program, script, nodes in LIBRARIES:
        label = f"{name}-{version(package)}"
        if wanted and not any(word in label for word in wanted):
            continue
        started = time.monotonic()
        said, form = record(program, script, nodes)
        said = [*head(label, package.rstrip("4"), source, nodes, form), *said]
        path = FILES / f"{label}.txt"
        if write:
            path.write_text("\n".join(said) + "\n")
            print(f"{path.name}: {time.monotonic() - started:.0f} s")
        else:
            differs |= compare(path, said)
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
