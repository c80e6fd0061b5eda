"""What is requested of each job: its options, each in one place.

A *request* (``VerifyRequest``, ``EraseRequest``) is a value with the options of a command. An *option* is a field of
it: its name, its type, its default, and one sentence. From it come the keyword of a function of Python, the check of
what is given there, its part of the docstring, and the option of the command line with its help.
"""
