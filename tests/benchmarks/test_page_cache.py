"""Files that a benchmark keeps in memory."""

from pathlib import Path

from benchmarks.page_cache import PageCache


def test_it_holds_what_is_there_and_lets_go_of_what_is_not(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "one").write_bytes(b"1" * 10_000)
    (tmp_path / "deep" / "two").write_bytes(b"2" * 20)
    (tmp_path / "empty").touch()
    (tmp_path / "other name").symlink_to(tmp_path / "one")
    with PageCache(tmp_path) as cache:
        assert cache.held_bytes == 0
        cache.hold()
        assert cache.held_bytes == 10_020
        (tmp_path / "one").unlink()
        (tmp_path / "three").write_bytes(b"3" * 300)
        cache.hold()
        cache.hold()
        assert cache.held_bytes == 320
        (tmp_path / "three").write_bytes(b"4" * 400)
        cache.hold()
        assert cache.held_bytes == 420
    assert cache.held_bytes == 0
