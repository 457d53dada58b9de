"""Runs real clients against `lockstorm serve` and prints what became of each step.

Sets up its own environments below target/clients (a virtual environment and node_modules), with the
versions that requirements.txt and package-lock.json pin. Needs cargo, python3 with venv, node and npm.
"""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ENVIRONMENT = ROOT / "target" / "clients"

# What `run` ends with where packages cannot be fetched: nothing was tested.
CANNOT_PREPARE = 75

# (client, its version is that of, program, script, topology)
CASES = [
    ("redis-py Lock", "redis", "python", "redis_py_lock.py", "single"),
    ("redis-py RedisCluster", "redis", "python", "redis_py_cluster.py", "cluster"),
    ("redis-py Sentinel", "redis", "python", "redis_py_sentinel.py", "sentinel"),
    ("pottery Redlock", "pottery", "python", "pottery_redlock.py", "independent"),
    ("node redlock", "redlock", "node", "redlock5.mjs", "independent"),
    ("redis-semaphore", "redis-semaphore", "node", "semaphore.mjs", "single"),
]


def prepare():
    python = ENVIRONMENT / "python"
    if not (python / "bin" / "pip").exists():
        venv.create(python, with_pip=True)
    pip = [python / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", HERE / "requirements.txt"], check=True)
    copy_scripts()
    quiet = ["npm", "ci", "--silent", "--no-audit", "--no-fund"]
    subprocess.run(quiet, cwd=ENVIRONMENT / "node", check=True)


def copy_scripts():
    """Scripts find node_modules only beside or above themselves."""
    node = ENVIRONMENT / "node"
    (node / "wire").mkdir(parents=True, exist_ok=True)
    scripts = [*HERE.glob("*.mjs"), *HERE.glob("wire/*.mjs")]
    for file in [*scripts, HERE / "package.json", HERE / "package-lock.json"]:
        (node / file.relative_to(HERE)).write_bytes(file.read_bytes())


def version(package):
    """The version that is pinned."""
    for line in (HERE / "requirements.txt").read_text().splitlines():
        if line.startswith(f"{package}=="):
            return line.split("==")[1]
    return re.search(rf'"{package}": "([^"]+)"', (HERE / "package.json").read_text()).group(1)


class Serve:
    """Nodes on free ports as long as a client runs."""

    def __init__(self, topology):
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        command = [target / "debug" / "lockstorm", "serve", "--topology", topology]
        command += ["--port", "0", "--admin-port", "0", "--for", "120s"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.nodes, self.sentinels, self.admin = [], [], None
        while self.admin is None:
            line = self.process.stdout.readline()
            if not line:
                sys.exit("serve ended before it said where it listens")
            words = line.split()
            if re.fullmatch(r"n\d+", words[0]):
                self.nodes.append(words[1])
            elif re.fullmatch(r"s\d+", words[0]):
                self.sentinels.append(words[1])
            elif words[0] == "admin":
                self.admin = words[1]

    def end(self):
        """What serve says at its end."""
        self.process.terminate()
        return self.process.communicate(timeout=30)[0]


def run(program, script, topology):
    serve = Serve(topology)
    environment = dict(
        os.environ,
        LOCKSTORM_NODES=",".join(serve.nodes),
        LOCKSTORM_SENTINELS=",".join(serve.sentinels),
        LOCKSTORM_ADMIN=serve.admin,
    )
    if program == "python":
        command = [ENVIRONMENT / "python" / "bin" / "python", HERE / script]
    else:
        command = ["node", ENVIRONMENT / "node" / script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    said = serve.end()
    return done, said


def main():
    try:
        prepare()
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"the environments cannot be set up: {error}", file=sys.stderr)
        return CANNOT_PREPARE
    subprocess.run(["cargo", "build", "--locked", "--quiet"], cwd=ROOT, check=True)
    failed = False
    for name, package, program, script, topology in CASES:
        print(f"{name} {version(package)} on {topology}")
        done, said = run(program, script, topology)
        for line in done.stdout.splitlines():
            step, held, what = line.split("\t")
            print(f"  {step:<8} {held:<6} {what}")
        if done.returncode != 0:
            failed = True
            print(done.stderr, file=sys.stderr)
            print(said, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
