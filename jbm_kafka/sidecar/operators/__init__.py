"""The commands and questions of operators that the owner of a partition carries out and answers."""
