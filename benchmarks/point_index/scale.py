"""How much each experiment does: once for every `make bench`, once at the largest that fits the machine."""

from dataclasses import dataclass

# A layout of one cuckoo run: partitions, values in each, buckets of each filter.
Layout = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of one run of all experiments."""

    name: str
    # Partitions that latency is measured at, and the keys that they share: a file of the same size at every count.
    cuckoo_partitions: tuple[int, ...]
    postings_partitions: tuple[int, ...]
    latency_keys: int
    # Filters as large as the published ones, beside those that are smaller so that more of them fit.
    published_layouts: tuple[Layout, ...]
    probes: int
    # Partitions and values in each for the bucket counts.
    bucket_partitions: int
    bucket_values: int
    rate_probes: int
    reader_seconds: float
    build_keys: int
    lance_rows: int


USUAL = Scale(
    name="point_index",
    cuckoo_partitions=(1_000, 3_000, 10_000, 30_000, 100_000),
    postings_partitions=(1_000, 10_000, 100_000, 1_000_000),
    latency_keys=10_000_000,
    published_layouts=((200, 100_000, 38_000),),
    probes=1_000,
    bucket_partitions=1_000,
    bucket_values=4_000,
    rate_probes=400_000,
    reader_seconds=1.0,
    build_keys=20_000_000,
    lance_rows=2_000_000,
)

LARGE = Scale(
    name="point_index_large",
    cuckoo_partitions=(1_000, 10_000, 100_000, 1_000_000),
    postings_partitions=(1_000, 10_000, 100_000, 1_000_000),
    latency_keys=100_000_000,
    published_layouts=((1_000, 100_000, 38_000), (4_000, 100_000, 38_000)),
    probes=2_000,
    bucket_partitions=5_000,
    bucket_values=4_000,
    rate_probes=4_000_000,
    reader_seconds=2.0,
    build_keys=100_000_000,
    lance_rows=20_000_000,
)
