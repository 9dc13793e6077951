"""Work in many pieces: stopped at any time and resumed, nothing lost, nothing paid twice."""
