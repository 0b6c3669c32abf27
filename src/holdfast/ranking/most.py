"""How many rules of each kind and table are shown, for dependencies how many left sides, unless more are asked for."""

DEFAULT_MOST = 15
