"""Trainers: each fits one kind of model. Shipped to other machines: Python 3.8, standard library only."""
