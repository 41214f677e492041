"""Settings: what can be set, and documents whose errors name file, line and column."""
