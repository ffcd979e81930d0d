"""Many fits: sites in a folder or a table, processes that share what is compiled, and a ledger."""
