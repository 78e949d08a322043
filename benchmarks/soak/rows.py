"""The rows of a soak: few keys that many write, so that everything meets everything."""

import hashlib

SCHEMA = "id int64, part int64, seq int64, text string"
PARTITIONS = 4
# Below the first bound nobody ever deletes; up to the second all writers delete and write the same keys; the rest is one writer's own.
KEPT, SHARED, OWN = 200, 300, 50
WRITERS = 3
KEYS = SHARED + OWN * WRITERS


def properties(heartbeat_seconds: float, grace_seconds: float) -> dict[str, object]:
    """Little is kept, so that cleans have something to do."""
    return {
        "granule_rows": 64,
        "heartbeat_seconds": heartbeat_seconds,
        "grace_seconds": grace_seconds,
        "retained_seconds": grace_seconds,
        "retained_versions": 5,
        "table_service_rollback_delay": 6 * heartbeat_seconds,
    }


def seq_of(writer: int, count: int) -> int:
    """Unique, and rising with the count of each writer: the greatest of a key wins."""
    return count * WRITERS + writer


def row(key: int, seq: int) -> dict[str, object]:
    return {"id": key, "part": key % PARTITIONS, "seq": seq, "text": text_of(key, seq)}


def text_of(key: int, seq: int) -> str:
    """What this write of this key says; long enough to notice a mixed-up row."""
    return hashlib.blake2b(f"{key}:{seq}".encode(), digest_size=24).hexdigest()


def own_keys(writer: int) -> range:
    return range(SHARED + writer * OWN, SHARED + (writer + 1) * OWN)
