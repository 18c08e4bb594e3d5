"""The same algorithms over real sites: messages, transports, a site, and the server of a run that survives."""
