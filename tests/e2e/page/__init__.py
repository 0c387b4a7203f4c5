"""The page in a real browser: Debian's Chromium without a window, driven by Playwright.

`serving` starts muster as people do and finds the address that it prints; `looking` is the page as somebody sees it,
by the data-testid of its parts; `clusters` are the files that are shown.
"""
