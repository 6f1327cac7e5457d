"""Pictures as SVG, for reports, experiments and searches; nothing has to be installed to draw them.

graphs.py         curves, points, bars and histograms, in a page or as a file of their own
design.py         colours and type, of tokens.css: one design for pictures, reports and the page of the server
neighbour_map.py  many dimensions into two, such that what is near stays near (t-SNE), with titles beside the points
markup.py         elements of SVG and HTML; whatever is not an element is escaped
"""
