"""The lottery ticket of Theorem 2 made real: masks on a random Transformer that turn it into a given one."""
