# Every line of a recipe also works without just.

set shell := ["bash", "-uc"]

# run every scenario and write reports/
main:
    cargo run --release

# every scenario on both engines
both:
    cargo run --release -- --engine both

# every page of docs/locks
pages:
    cargo run --release -- list locks --details --report docs/locks

# what CI runs
check:
    bash .ci/run

# the tests that README names
test:
    cargo test --workspace

# redis-py, pottery, node redlock and redis-semaphore against nodes on real ports
clients:
    python3 clients/run.py

# record again what real lock libraries send, and print what differs from tests/wire
wire *which:
    python3 clients/wire/record.py {{which}}

# ten scenarios with their remedies on real redis-servers, three times each: under three minutes
confirm:
    cargo run --release -- confirm --jobs 40 --report target/confirmed \
      scenarios/{gc-pause-outlives-lease,setnx-holder-crashes,redlock-amnesiac-restart,redisson-late-unlock,failover-before-replication}.toml \
      scenarios/{minority-master,sentinel-old-connections,sentinel-clock-step-delays-failover,cluster-failover-loses-grant,promoted-replica-with-fast-clock}.toml

# every scenario that real servers can show, with the tables of docs/confirm.md: nine minutes
confirm-all:
    cargo run --release -- confirm scenarios --jobs 40 --report target/confirmed

# benchmarks; each ends with one plain line per figure
bench:
    cargo bench

# accept what the scenarios' traces hash to now, after an intended change
golden:
    LOCKSTORM_GOLDEN=write cargo test --release --test lab -- scenarios:: mechanisms::scenarios

# accept what users of the library can name now, after an intended change
surface:
    LOCKSTORM_GOLDEN=write cargo test --test house surface

# the brute forces against the checkers, at length
fuzz-checkers cases="200000":
    LOCKSTORM_CASES={{cases}} cargo test --release --test lab brute::

# each correct lock of tests/locks/, and of the other tests of shapes, over so many plans; the bugs in
# tests/locks/ are found; LOCKSTORM_LOCK=NAME for one file
shapes plans="20000":
    LOCKSTORM_SHAPES={{plans}} cargo test --release --test lab -- keeps_its_promise scripted::

# how many plans, and seconds, half of twenty hunts take for each row of lock, topology and fault;
# LOCKSTORM_ROW="setnx Cluster" for the rows with that in their names
reach hunts="20":
    LOCKSTORM_REACH={{hunts}} cargo test --release --test lab reach:: -- --nocapture

# the class of random violated plans against all subsets of their faults, at length
class plans="300":
    LOCKSTORM_PLANS={{plans}} cargo test --release --test lab class::

# so many hunts; each finding is shrunk to a minimal plan, which is checked
shrinks hunts="500":
    LOCKSTORM_HUNTS={{hunts}} cargo test --release --test lab of_what_is_shrunk -- --nocapture

# every sentence of so many hunted violations against the raw history
true-stories stories="20000":
    LOCKSTORM_STORIES={{stories}} cargo test --release --test lab true_stories:: -- --nocapture

# every planted bug, and whether what must notice it does: the table. Or a share, `3/8`, or ids
mutants which="all":
    LOCKSTORM_MUTANTS={{which}} cargo test --test mutants -- --nocapture

# how soon each strategy of a hunt finds the planted bugs of locks: the table
by-strategy:
    LOCKSTORM_MUTANTS=by-strategy cargo test --test mutants -- --nocapture

# record the replies of the installed redis-server again, and compare
truth:
    LOCKSTORM_TRUTH=write cargo test -p lockstorm-redis --test truth
    cargo test -p lockstorm-redis --test truth

# random requests on the fake node and on the installed redis-server, at length
fuzz-redis requests="1000000" seed="1":
    LOCKSTORM_REQUESTS={{requests}} LOCKSTORM_SEED={{seed}} cargo test -p lockstorm-redis --test truth random

# redlock inside its assumptions, and the same settings on two locks that must fail
redlock seeds="1..10000": (outlast "--lock redlock --needs 1s" seeds)
    just outlast "--lock redlock --needs 1s --quorum 2" {{seeds}}; [ $? -eq 1 ]
    just outlast "--lock redlock-no-validity" {{seeds}}; [ $? -eq 1 ]

# every row of lock, topology and persistence that claims to hold, inside its assumptions: 80 rows,
# each a line of target/million/table.txt; twenty thousand plans a row are over an hour
million seeds="1..20000":
    #!/usr/bin/env bash
    set -u
    cargo build --release --locked && mkdir -p target/million && : > target/million/table.txt || exit
    row() {
      printf '%s %s %s: ' "$@" | tee -a target/million/table.txt
      target/release/lockstorm hunt --lock "$1" --topology "$2" --persistence "$3" \
        --within-assumptions --seeds {{seeds}} --report "target/million/$1-$2-$3" </dev/null |
        sed -n 's/^no violation in/0 in/p; /^found after/p' | tee -a target/million/table.txt
    }
    for persistence in none aof-always aof-everysec aof-no rdb; do
      row redlock independent $persistence
      for lock in token-lua token-lua-renewed fenced wait-replicas; do
        [ $lock = wait-replicas ] || row $lock single $persistence
        for topology in replicated sentinel cluster; do row $lock $topology $persistence; done
      done
    done
    ! grep found target/million/table.txt

[private]
outlast lock seeds:
    cargo run --release -- hunt {{lock}} --topology independent --within-assumptions --faults partition,delay,loss --timeout 4s --seeds {{seeds}}
