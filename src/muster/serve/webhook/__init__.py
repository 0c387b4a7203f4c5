"""Admission: what is answered to the API server, and the certificates that make it believe who answers."""
