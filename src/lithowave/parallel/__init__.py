"""Ranks of a run and communication between them: the only package that uses MPI and NCCL."""
