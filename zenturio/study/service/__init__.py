"""A service that runs submitted studies and shares the slots of its places."""
