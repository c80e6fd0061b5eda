"""The answers to each kind of request; a module answers one kind, or those of one purpose."""
