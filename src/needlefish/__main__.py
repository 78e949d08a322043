"""`python -m needlefish` is the `needlefish` command."""

from needlefish.cli.main import main

if __name__ == "__main__":
    main()
