"""What a broker does to produced batches: validation, offsets, leader epochs, LogAppendTime."""
