"""Work in many pieces: stopped at any time and gone on with, nothing lost, nothing paid twice."""
