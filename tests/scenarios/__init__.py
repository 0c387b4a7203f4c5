"""Claims about muster, one file each: what there is, what happens, what must come of it. See README.md."""
