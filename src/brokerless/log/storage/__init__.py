"""Every file that is opened, local or through fsspec; atomic writes and the directory lock."""
