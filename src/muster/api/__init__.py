"""What people write, and the one meaning of it.

Structs for the kinds that muster owns and for the slices of the core kinds that a scheduler reads (`podgroup`,
`topology`, `queue`, `interface`, `cluster`), quantities and durations, bytes to documents, documents to structs, the
normal-form tree with `satisfied`, `ready`, minimum and core, validation, migration of older spellings, and the CRDs
that are generated from the structs. Pure: nothing here reads a file, a clock or the network.
"""
