"""The description of an experiment: what the user says, validated; it knows no device, no MPI and no grid."""
