"""One page that shows a log: figures from its batch headers, charts of them, and what an audit found."""
