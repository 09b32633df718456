# Each rank adds up its share of a series for pi, and writes its part to a file.
rank <- as.integer(Sys.getenv("RANK"))
size <- as.integer(Sys.getenv("WORLD_SIZE"))
k <- seq(rank, 1999999, by = size)
part <- 4 * sum((1 - 2 * (k %% 2)) / (2 * k + 1))
cat(sprintf("rank %d of %d on %s: %.6f\n", rank, size, Sys.info()[["nodename"]], part))
dir.create("parts", showWarnings = FALSE)
cat(sprintf("%.15f\n", part), file = file.path("parts", rank))
