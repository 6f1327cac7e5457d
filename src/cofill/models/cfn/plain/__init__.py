"""The network, its noise and its loss in plain torch: their definition, and the engines `dense` and `sparse`.

Nothing else of the package needs torch but the exchange of a cluster's workers. It is imported where it is asked for.
"""
