"""One page that shows a log: figures from its batch headers, charts of them, and what an audit found.

A *figure* is a table with a name and a schema; most are *sums* over batches: by hour, size, codec or producer. The
*outcome* is what the page says first: which offsets are lost, and what a broker's start comes to.

A *chart* draws the *chart rows* of a figure: few enough, and labelled. *Plots* are the same charts for a notebook. A
*section* of the page has charts and *table views*, the columns of figures that people see. *Page rows* are in no
figure: topics with their settings, and findings that say the same in several places as one. What is *folded* is shown
after a click.
"""
