"""Networks, adapters and GPUs of nodes, and what NCCL, UCX and the MPIs are told of them."""
