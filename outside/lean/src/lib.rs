//! A program without io_uring, threads for channels, and channels within the process: see `tests/`.
