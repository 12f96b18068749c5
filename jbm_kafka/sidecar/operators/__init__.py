"""What operators ask an owner to do with messages, or to say about them."""
