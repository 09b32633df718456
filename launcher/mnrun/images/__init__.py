"""Names of images, and the cache of pulled images. The names of formats and programs need no other module."""

FORMATS = ("docker", "singularity")  # of a text that an image is built from
FILES = ("apptainer", "singularity")  # these make a SIF file
STORES = ("podman", "docker")  # these have a store of images
TAGGERS = (*STORES, "buildah")  # these put an image into a store, and buildah into Podman's
BUILDERS = (*FILES, *TAGGERS)
