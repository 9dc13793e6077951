"""The layers between a call and its model, one a file: nothing lost, nothing paid twice."""
