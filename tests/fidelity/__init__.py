"""One table of requests that the embedded server and a real kube-apiserver must answer alike."""
