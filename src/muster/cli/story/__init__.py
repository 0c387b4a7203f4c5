"""A story told live: what `muster demo` plays on a playground, in chapters whose claims are checked as they come true.

`tale` is the file, `performing` plays it, `witness` watches what happens meanwhile, `evidence` judges the claims, and
`telling` with `racks` is what people see. What a user would do with kubectl goes over HTTPS (`sender`, `kubectl`);
nodes, kubelets and operators are part of the playground.
"""
