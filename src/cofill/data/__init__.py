"""Read files into arrays: ratings, ids, splits and data sets."""
