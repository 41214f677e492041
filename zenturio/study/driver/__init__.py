"""How a study is run: the states of its experiments, the driver, and what they use."""
