"""The answers to each kind of request; a module answers one kind, or those of one purpose.

An *answer* is a function of the *serving*, which is all that requests share (topics, groups, users), and of one
*request*; it returns the fields of the response as Kafka's protocol names them. The head of a module says which
versions are answered, what is true of the answers, and what is *left out* of what a broker does. The *dead cluster* is
the one whose log directories are served: its metadata, ACLs and committed offsets are where answers begin.

A *gate* applies the ACLs to an answer: what a user may not know is left out, or answered with the error that a broker
has for it. A *refusal* answers a request to write, with an error that its client takes as final. A *login* is answered
by its connection. An answer is *waiting* if it depends on more than its turn: on new records, or on members of a group.
"""
