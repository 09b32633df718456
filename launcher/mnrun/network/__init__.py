"""Networks, adapters and GPUs of nodes, and the settings of NCCL, UCX and the MPIs for them."""
