"""`python -m gnomon` is the `gnomon` command."""

from .cli import main

if __name__ == "__main__":
    main()
