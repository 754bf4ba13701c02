"""Tools that never run twice: the agent half of gnomon."""
