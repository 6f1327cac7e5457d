"""Lists: which items to show a user, best first. What they would choose, as opposed to what they would rate it.

feedback       what people did, in which order, and how much of it counts
scorer         the interface of what scores items for lists, how it follows new ratings and items, and the usual scorer
item_weights   the fitted weights of the usual scorer: linear in what a user did, in closed form
next           lists of what comes next, by order and time
rules          lists, and what may be in one: conditions, boosts, at most n of a kind, diversity
"""
