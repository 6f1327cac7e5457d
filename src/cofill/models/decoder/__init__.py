"""The Bayesian decoder: what a column would rate, from the codes of the rows that it has rated, in closed form.

A column's ratings, less the overall mean and the deviations of the rows, are taken to be a Gaussian process over rows:

    K_ij = noise [i = j] + bias + r_i r_j (taste a_i . a_j + cosine d_i . d_j + local exp(8 (d_i . d_j - 1)))
    prediction at row i = overall + deviation of i + k_i' K^-1 y          r / (1 - r) = (n / half) ^ power

a: a row's code along the directions in which the trained output weights differ; d: its centred code, scaled to
length 1, so that d_i . d_j is the cosine similarity of two rows; r: shrinkage by the number n of the row's own ratings.
The codes of what a column has rated are those without its own rating (leave-one-out): a network knows what it was
shown.

The amplitudes (bias, taste, cosine, local, half) are learned on validation ratings; those of columns with at most 20
ratings, and the power, on columns and rows that were thinned to so few. Where codes say nothing they go to
zero, and the biases remain: that is what makes the defaults safe on data that nobody has seen.

    kernel.py       amplitudes, directions of codes, and the kernel between rows
    amplitudes.py   how amplitudes are learned
    solving.py      the weights of all trained columns at once
    variances.py    how uncertain columns are of rows
    intervals.py    prediction intervals, from these variances
    neighbours.py   the local kernel, cut to the nearest rows, so that scoring stays one pass and a few additions
"""
