"""What is wrong with a plan or a library: the checker, its rules, the forms of findings."""
