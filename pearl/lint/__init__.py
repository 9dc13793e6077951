"""What is wrong with a plan or a library: the checker, its rules and the forms in which findings are shown."""
