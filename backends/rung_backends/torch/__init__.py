"""PyTorch kernels for cpu, cuda, rocm, mps and xpu. This package does not import torch, its modules do."""
