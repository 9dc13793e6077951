"""What is wrong with a plan or a library: the checker, its rules, and how findings are shown."""
