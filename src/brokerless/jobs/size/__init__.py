"""What a topic costs, and would cost in other formats, codecs and batch sizes."""
