"""potato_ray trains models on Potato annotations wherever there is a GPU.

This module is part of what is shipped to other machines: Python 3.8, standard library only.
"""

__version__ = "0.1.0"
