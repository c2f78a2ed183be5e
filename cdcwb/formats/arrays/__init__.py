"""Arrow arrays for many records at once, made with numpy and without a Python object per value."""
