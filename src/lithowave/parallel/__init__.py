"""Processes of a run and messages between them: the only package that knows MPI and NCCL."""
