"""All benchmarks, one after the other."""

from benchmarks import bloom, pipeline, tag


def main() -> int:
    return max(bloom.main([]), pipeline.main([]), tag.main([]))


if __name__ == "__main__":
    raise SystemExit(main())
