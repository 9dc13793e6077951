"""The layers between a call and its model, one in each file: cache, retry, budget, rate limit."""
