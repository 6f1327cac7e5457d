"""Lists: which items to show somebody, best first. Who would choose what, as opposed to what they would rate it.

grades         how much a known rating or interaction counts
scorer         the interface of what scores items for lists, and what follows new ratings and items
item_weights   the scorer of every model: linear in what somebody did, in closed form
rules          what may be in a list: conditions, boosts, at most n of a kind, diversity
ranked         the best of many scores, and the entries of a list
"""
