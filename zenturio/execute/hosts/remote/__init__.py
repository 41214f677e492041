"""What runs on a host: shipped there as one file, so only the standard library is used here."""
