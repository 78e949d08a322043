"""What is kept is bounded in bytes, and what was used last stays."""

from threading import Thread

from hypothesis import given
from hypothesis import strategies as st

from needlefish.index.recent import Recent


def test_what_was_used_last_stays() -> None:
    recent: Recent[str, int] = Recent(30)
    for number, name in enumerate("abc"):
        recent.keep(name, number, 10)
    assert recent.get("a") == 0
    assert "b" in recent, "looking whether it is there is no use of it"
    recent.keep("d", 3, 10)
    assert [name for name in "abcd" if name in recent] == ["a", "c", "d"]
    assert recent.get("b") is None


def test_one_that_is_larger_than_the_room_is_not_kept() -> None:
    recent: Recent[str, int] = Recent(30)
    recent.keep("a", 1, 30)
    recent.keep("b", 2, 31)
    assert (recent.get("a"), recent.get("b"), recent.held_bytes) == (1, None, 30)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=60), st.integers(0, 100))
def test_the_bytes_are_counted_and_never_too_many(kept: list[tuple[int, int]], limit: int) -> None:
    recent: Recent[int, int] = Recent(limit)
    sizes: dict[int, int] = {}
    for key, nbytes in kept:
        recent.keep(key, key, nbytes)
        if nbytes <= limit:
            sizes[key] = nbytes
        there = [key for key in sizes if key in recent]
        assert recent.held_bytes == sum(sizes[key] for key in there) <= limit
        assert len(recent) == len(there)


def test_threads_agree_on_the_count() -> None:
    recent: Recent[int, int] = Recent(1_000)

    def work(seed: int) -> None:
        for number in range(5_000):
            key = (number * 7 + seed) % 150
            assert recent.get(key) in (None, key)
            recent.keep(key, key, 1 + key % 20)

    threads = [Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recent.held_bytes == sum(1 + key % 20 for key in range(150) if key in recent) <= 1_000
