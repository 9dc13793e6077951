"""Actions learnt from example questions (PEARL, section 2.1)."""
