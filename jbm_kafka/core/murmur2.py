"""The partition of a key, as every Java producer computes it.

Kafka's Java clients, and Spark's sink through them, hash a key's bytes with MurmurHash2 (32 bits, seed 0x9747b28c),
drop the sign bit and take the rest modulo the partition count. `tests/golden/murmur2.json` holds values that Kafka's
own class gave.
"""

from functools import lru_cache
from struct import unpack_from

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash as Java's signed `int`, as `org.apache.kafka.common.utils.Utils.murmur2` gives it."""
    length = len(data)
    words = length >> 2
    h: int = _SEED ^ length
    for k in unpack_from(f"<{words}I", data):
        k = k * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    if length & 3:
        h = (h ^ int.from_bytes(data[words << 2 :], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return h - 0x100000000 if h & 0x80000000 else h


@lru_cache(maxsize=16_384)  # some 200 bytes each
def partition_for(key: bytes, partition_count: int) -> int:
    """The partition a Java producer sends this key to. A null or empty key has none: decide before calling."""
    assert partition_count > 0, partition_count
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
