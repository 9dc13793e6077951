"""Jobs of many tasks, which can be stopped at any time and resumed, with no call paid twice."""
