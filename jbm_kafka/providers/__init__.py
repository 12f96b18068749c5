"""The providers behind a connection, each chosen by the scheme of its URL: ports/provider.py says what all of them
do."""
