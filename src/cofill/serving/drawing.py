"""python -m cofill.serving.drawing: vectors (.npy) on standard input, their places from 0 to 1 on standard output."""

import io
import os
import sys

import numpy as np

from cofill.report.neighbour_map import map_of


def main() -> None:
    os.nice(19)
    vectors = np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False)
    places = map_of(vectors)
    low, high = places.min(0), places.max(0)
    drawn = io.BytesIO()
    np.save(drawn, ((places - low) / np.maximum(high - low, 1e-12)).astype(np.float32), allow_pickle=False)
    sys.stdout.buffer.write(drawn.getvalue())


if __name__ == "__main__":
    main()
