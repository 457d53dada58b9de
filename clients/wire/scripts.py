"""The Lua scripts that the libraries send: by SHA-1, a name, and what each does in our words."""

SCRIPTS = {
    # redis-py
    "c3f8721cbb97f72bc19e972846bd7aaf91901658": (
        "release",
        "deletes the key if it holds the token; 1, otherwise 0",
    ),
    "a4e8783852e6b949f9ef3a97212805108459a890": (
        "extend",
        "if the key holds the token and has a time to live, sets it, or adds to it (0); 1 or 0",
    ),
    # pottery
    "a4aada0b36710970eedaaaeec4a6b7d8c78c4f80": (
        "release",
        "deletes the key if it holds the token; the number of keys deleted",
    ),
    "ba015a80261b616e7a62d35df0b8e3edbe6c9414": (
        "extend",
        "sets the time to live if the key holds the token; 1, otherwise 0",
    ),
    # aioredlock
    "c75a9bf1538efcdb1f383acc3e273c5089d57e58": (
        "acquire",
        "sets key and time to live if the key is absent or holds the token; otherwise an error",
    ),
    "241e4ca540a1cc4ec1f32d9eb9f879e607d7e6e5": (
        "release",
        "deletes the key if it holds the token, is content if it is absent; otherwise an error",
    ),
    "f908d3f43dbcabc68fc0c9ecaf1fa4a285ecdb0a": (
        "ttl",
        "the time to live in seconds if the key holds the token; otherwise an error",
    ),
    # redlock-py
    "4e92fdc63815b3a0a2dd1c1df3694de73607c88d": (
        "release",
        "deletes the key if it holds the token; the number of keys deleted",
    ),
    # python-redis-lock
    "90da91872223f85eb1376a17e3c4df21ace8c54b": (
        "release",
        "deletes the key if it holds the token, puts one element into the list; 0, otherwise 1",
    ),
    "fed16109024d968d9496e4140fe1355bac05ebff": (
        "extend",
        "sets the time to live in seconds if the key holds the token; 0, otherwise 1 or 2",
    ),
    # redlock 4 and 5
    "e5a322e2634ef59a516e8ea150cb085afafee684": (
        "acquire",
        "sets all keys with their time to live if none exists; the number of keys, or 0",
    ),
    "ce46f80993d5dac20dd066eb301a4e37994bdbed": (
        "extend",
        "sets all keys again with their time to live if all hold the token; their number, or 0",
    ),
    "0f0f23b9048b36752b5be114f357ba083449f908": (
        "release",
        "deletes the keys that hold the token; their number",
    ),
    "96da70f7716f27d278a5218544df37fd8b0a5e4c": (
        "acquire",
        "sets all keys with their time to live if none exists; the number of keys, or 0",
    ),
    "aed6f382e410db8ba7926d4e5e9aab410bf2a78a": (
        "extend",
        "sets all keys again with their time to live if all hold the token; their number, or 0",
    ),
    "e4612211c9f8f51c257e26e056b0a654b3187242": (
        "release",
        "deletes the keys that hold the token; their number",
    ),
    # @sesamecare-oss/redlock: the same, after SELECT of the database
    "1b77b94aa78451d55dfa97e18819bfbfc596cb5b": (
        "acquire",
        "sets all keys with their time to live if none exists; the number of keys, or 0",
    ),
    "820e9778d2b6733e9ed771e4be90ae73a95a6f3b": (
        "extend",
        "sets all keys again with their time to live if all hold the token; their number, or 0",
    ),
    "df51f6837dcfe303d334e6abea9aeae192bab216": (
        "release",
        "deletes the keys that hold the token; their number",
    ),
    # redis-semaphore
    "7157921a7cc7cfba979acf6d63f073151df17d12": (
        "release",
        "deletes the key if it holds the token; the number of keys deleted",
    ),
    "594683e49a64ebaf975caf5f8079a1d097c438f1": (
        "extend",
        "sets the time to live if the key holds the token; 1, otherwise 0",
    ),
    # rslock
    "daf86bbf8740dd3ca86733367a016364b2110627": (
        "release",
        "deletes the key if it holds the token; the number of keys deleted",
    ),
    "17a49af0c4b1a9034503fa84f3570f5ca76c4cbf": (
        "extend",
        "sets the key again with its time to live if it holds the token; 1, otherwise 0",
    ),
}
