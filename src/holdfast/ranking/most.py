"""How many rules of each kind and table are shown, unless more are asked for."""

DEFAULT_MOST = 10
