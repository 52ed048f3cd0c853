"""More than one machine: the gateway in front of servers, and what clusters and operators need to run them."""
