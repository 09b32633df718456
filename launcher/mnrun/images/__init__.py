"""Names of images, and the cache of those that were fetched."""
