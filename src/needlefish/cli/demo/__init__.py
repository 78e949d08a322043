"""`needlefish demo`: a small table built, read and looked into, as a list of steps that later features add to."""
