"""What the portal shows: one module for each page."""
