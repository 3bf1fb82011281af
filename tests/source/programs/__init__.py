"""Programs as people write them, without a thought of derivatives; ``cases.py`` says what is derived of them, and where."""
