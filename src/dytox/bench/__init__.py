"""Speed, side by side with the plain formulation."""
