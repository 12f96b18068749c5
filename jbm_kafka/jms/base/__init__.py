"""The ground that all of jms stands on: checks of arguments, one call at a time, modes."""
