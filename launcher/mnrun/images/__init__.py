"""Names of images, and the cache of pulled images."""
