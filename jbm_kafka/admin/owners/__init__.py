"""Commands and questions to the processes that own partitions; where none does, this process owns them meanwhile."""
