"""The job folder and the processes that work in it. Shipped: Python 3.8, standard library only."""
