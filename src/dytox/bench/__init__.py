"""The speed of this implementation, compared with the plain formulation."""
