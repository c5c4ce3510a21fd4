"""``python -m lithowave``: the command line."""

from lithowave.cli import main

if __name__ == "__main__":
    main()
