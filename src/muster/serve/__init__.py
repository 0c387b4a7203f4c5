"""HTTP out: the admission webhook, the page, health and metrics; `server` listens.

`views` is what the page shows, as values; `page` serves it; `static` is what runs in the browser.
"""
