"""The door to the network: the only room of ``requests`` and what it stands on."""
